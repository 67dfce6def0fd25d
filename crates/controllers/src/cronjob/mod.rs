pub mod cron;
pub mod schedule;
#[cfg(test)]
mod tests;

mod plan;
mod sync;

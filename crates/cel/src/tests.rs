//! Our engine beside upstream's answers.

mod golden;
mod hostile;

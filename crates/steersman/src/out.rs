//! Standard output, which may be full, or closed by a reader who has seen enough.
//!
//! `print!` and `println!` of the standard library panic then. In this crate they are these.

#![expect(clippy::print_stderr, reason = "this is where users are spoken to")]

use std::fmt;
use std::io::{ErrorKind, Write};

/// What a shell says of a program that wrote to a closed pipe.
const NOBODY_READS: i32 = 141;

macro_rules! print {
    ($($text:tt)*) => { $crate::out::write(format_args!($($text)*)) };
}

macro_rules! println {
    ($($text:tt)*) => { $crate::out::write(format_args!("{}\n", format_args!($($text)*))) };
}

/// Ends the program if it cannot be told any more what came of it.
pub(crate) fn write(text: fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(NOBODY_READS),
        Err(error) => {
            eprintln!("error: cannot write to standard output: {error}");
            std::process::exit(1);
        }
    }
}

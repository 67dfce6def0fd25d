//! Measurements. `cargo xtask bench` lists them; each prints a table and writes its figures to
//! `target/bench/<name>.jsonl`. A figure that misses its goal is printed as missed and the command
//! still ends well: it measures, it does not judge.
#![expect(clippy::print_stdout, reason = "a command line tool prints its result")]
#![expect(clippy::print_stderr, reason = "and its progress")]
#![expect(
    clippy::disallowed_methods,
    reason = "what is measured here is real time"
)]

mod apiserver;
mod head_to_head;
mod hostile;
mod process;
mod report;
mod runtime;
mod simulate;
mod up;

use std::process::ExitCode;

use anyhow::Result;
use report::Report;

/// A bench: its name, what it measures, and the code.
struct Bench {
    name: &'static str,
    about: &'static str,
    run: fn(&[String], &mut Report) -> Result<()>,
}

const BENCHES: [Bench; 7] = [
    Bench {
        name: "apiserver",
        about: "our API server beside kube-apiserver and etcd: start, memory, creates, lists, watchers",
        run: apiserver::run,
    },
    Bench {
        name: "head-to-head",
        about: "the Go controller manager and ours on the same real servers: CPU, memory, wall, requests",
        run: head_to_head::run,
    },
    Bench {
        name: "hostile",
        about: "attacks on our API server and manager: the worst request, memory, connections held, health meanwhile",
        run: hostile::run,
    },
    Bench {
        name: "process",
        about: "our controller manager beside Go's: idle, start, takeover, standby, size",
        run: process::run,
    },
    Bench {
        name: "simulate",
        about: "the simulator: speed, seeds an hour, same bytes, crashes after each write",
        run: simulate::run,
    },
    Bench {
        name: "runtime",
        about: "informers and queues: bytes and CPU per cached pod, keys a second",
        run: runtime::run,
    },
    Bench {
        name: "up",
        about: "`steersman up`: starting, memory, idle, a thousand pods, fifty thousand pods",
        run: up::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else {
        println!("usage: cargo xtask bench <name>\n");
        for bench in &BENCHES {
            println!("  {:<14} {}", bench.name, bench.about);
        }
        return ExitCode::SUCCESS;
    };
    let Some(bench) = BENCHES.iter().find(|bench| bench.name == name) else {
        eprintln!("error: there is no bench {name:?}; `cargo xtask bench` lists them");
        return ExitCode::FAILURE;
    };
    let mut report = Report::default();
    match (bench.run)(rest, &mut report).and_then(|()| report.finish(bench.name)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

//! Upstream's tests of kubectl, function by function.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use real_tests::Flavor;
use real_tests::installation::{self, Installation};
use real_tests::kubectl_suite::{Outcome, Scripts, Servers, exception};

/// Runs all functions, or those that are named, and says which do not do what is expected of them.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let mut flavor = Flavor::Ours;
    let mut named = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--server" => {
                flavor = match words.next().map(String::as_str) {
                    Some("go") => Flavor::Go,
                    Some("ours") => Flavor::Ours,
                    other => bail!("--server must be go or ours, not {other:?}"),
                }
            }
            name => named.push(name.to_owned()),
        }
    }
    let installation = Installation::pinned()?;
    let scripts = Scripts::unpack(&installation)?;
    let all = scripts.functions()?;
    if let Some(unknown) = named.iter().find(|name| !all.contains(name)) {
        bail!(
            "upstream runs no function {unknown}; it runs: {}",
            all.join(", ")
        );
    }
    let chosen = match named.is_empty() {
        true => all,
        false => named,
    };
    let logs: PathBuf = installation::cache_directory()?
        .join("kubectl-tests")
        .join(flavor.name());
    fs::create_dir_all(&logs)?;
    let (mut passed, mut unexpected) = (0, Vec::new());
    let mut servers = Servers::start(&scripts, flavor, &installation)?;
    for function in &chosen {
        let log = logs.join(format!("{function}.log"));
        let Outcome {
            passed: passes,
            seconds,
        } = scripts.run(function, &mut servers, &log)?;
        if !passes {
            // Whatever it left would fail others.
            servers = Servers::start(&scripts, flavor, &installation)?;
        }
        let why = exception(function, flavor);
        passed += usize::from(passes);
        let outcome = match (passes, why) {
            (true, None) => "passed".to_owned(),
            (false, Some(why)) => format!("failed, as expected: {why}"),
            (true, Some(_)) => "passed, which was not expected any more".to_owned(),
            (false, None) => format!("FAILED: {}", log.display()),
        };
        println!("{function}: {outcome} ({seconds} s)");
        if passes == why.is_some() {
            unexpected.push(function.as_str());
        }
    }
    println!("{passed} of {} passed", chosen.len());
    if unexpected.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("not as expected: {}", unexpected.join(", "));
    Ok(ExitCode::FAILURE)
}

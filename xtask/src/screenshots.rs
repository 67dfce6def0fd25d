//! `cargo xtask screenshots`: pictures of the dashboard for docs/dashboard.md, from a real cluster in a real browser.

use anyhow::Result;

use crate::{steps, workspace};

pub(crate) fn run(_: &[String]) -> Result<()> {
    let folder = workspace::root().join("docs/dashboard");
    let mut test = workspace::cargo();
    test.args([
        "test",
        "--quiet",
        "--package",
        "steersman",
        "--test",
        "dashboard",
        "screenshots::",
    ])
    .args(["--", "--nocapture"])
    .env("STEERSMAN_SCREENSHOTS", &folder);
    steps::succeed(&mut test)?;
    println!("drew {}", folder.display());
    Ok(())
}

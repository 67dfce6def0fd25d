//! `cargo xtask image`: the static binary of a release in an image of its own, by buildah, podman or docker.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use super::target::{Target, on_path};
use super::{Commit, build};
use crate::{steps, workspace};

/// What builds images; the first that is there does.
const BUILDERS: [&str; 3] = ["buildah", "podman", "docker"];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let tag = match arguments {
        [] => "localhost/steersman:latest",
        [tag] if !tag.starts_with('-') => tag,
        _ => bail!("usage: cargo xtask image [tag]"),
    };
    let Some(builder) = BUILDERS.into_iter().find(|program| on_path(program)) else {
        bail!("there is no {}; Debian has buildah", BUILDERS.join(", no "));
    };
    let name = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let target = Target::find(&name).map_err(anyhow::Error::msg)?;
    let binary = build(&target, &Commit::read()?)?;
    let stage = workspace::target().join("dist/image");
    let _ = fs::remove_dir_all(&stage);
    lay_out(&binary, &stage)?;
    let mut command = Command::new(builder);
    command
        .args(["build", "--tag", tag, "--file"])
        .arg(workspace::root().join("deploy/Containerfile"))
        .arg(&stage);
    steps::succeed(&mut command)
}

/// The root of the image: the binary under both of its names, and a name for its user.
fn lay_out(binary: &Path, stage: &Path) -> Result<()> {
    let programs = stage.join("usr/local/bin");
    fs::create_dir_all(&programs)?;
    fs::create_dir_all(stage.join("etc"))?;
    fs::copy(binary, programs.join("steersman"))?;
    std::os::unix::fs::symlink("steersman", programs.join("kube-controller-manager"))?;
    fs::write(
        stage.join("etc/passwd"),
        "steersman:x:65532:65532::/:/none\n",
    )?;
    Ok(())
}

//! `cargo xtask dist`: what is released. For each target an archive with the static binary, man pages, completions and the
//! licence, and a list of what is in the binary (SBOM); checksums of all of it. `cargo xtask image` puts the same binary
//! into a container image.
//!
//! The same commit gives the same bytes: times are the commit's, owners are nobody's, names are sorted.

pub(crate) mod elf;
mod image;
mod sbom;
mod target;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::{steps, workspace};
pub(crate) use image::run as image;
use target::Target;

/// What `cargo xtask dist` makes where nobody says what.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let asked: Vec<&str> = match arguments {
        [] => TARGETS.to_vec(),
        names if names.iter().all(|name| !name.starts_with('-')) => {
            names.iter().map(String::as_str).collect()
        }
        _ => bail!(
            "usage: cargo xtask dist [target...], such as {}",
            TARGETS[0]
        ),
    };
    let folder = workspace::root().join("dist");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let commit = Commit::read()?;
    let mut made = Vec::new();
    for name in &asked {
        match Target::find(name) {
            Ok(target) => made.extend(package(&target, &commit, &folder)?),
            // One that was asked for by name must be there.
            Err(missing) if !arguments.is_empty() => bail!("{name}: {missing}"),
            Err(missing) => println!("{name}: left out: {missing}"),
        }
    }
    ensure!(!made.is_empty(), "no target can be built here");
    checksums(&folder, &made)?;
    println!("\n{} has", folder.display());
    for name in made.iter().map(String::as_str).chain(["SHA256SUMS"]) {
        println!("  {name}");
    }
    Ok(())
}

/// What is released.
pub(crate) struct Commit {
    pub(crate) id: String,
    /// Seconds since 1970, for archives.
    seconds: String,
    /// The same for people and for `steersman version`.
    date: String,
}

impl Commit {
    pub(crate) fn read() -> Result<Commit> {
        let log = git(&["log", "-1", "--format=%H %ct"])?;
        let (id, seconds) = log.split_once(' ').context("git log says nothing")?;
        let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
        let is_clean = changed.is_empty();
        if !is_clean {
            println!("note: there are changes that are not committed; the version says so");
        }
        let mut date = Command::new("date");
        date.args([
            "--utc",
            "--date",
            &format!("@{seconds}"),
            "+%Y-%m-%dT%H:%M:%SZ",
        ]);
        Ok(Commit {
            id: format!("{id}{}", if is_clean { "" } else { "-dirty" }),
            date: output(&mut date)?,
            seconds: seconds.to_owned(),
        })
    }
}

/// Builds and packs one target; the names of what was made.
fn package(target: &Target, commit: &Commit, folder: &Path) -> Result<Vec<String>> {
    let binary = build(target, commit)?;
    let version = version()?;
    let name = format!("steersman-{version}-{}", target.name);
    let stage = workspace::target().join("dist").join(&name);
    let _ = fs::remove_dir_all(&stage);
    fs::create_dir_all(stage.join("completions"))?;
    fs::copy(&binary, stage.join("steersman"))?;
    for file in ["LICENSE", "README.md"] {
        fs::copy(workspace::root().join(file), stage.join(file))?;
    }
    let help = match target.runs_here() {
        true => binary,
        false => host_binary()?,
    };
    write_help(&help, &stage)?;
    let archive = format!("{name}.tar.gz");
    pack(&stage, &name, &folder.join(&archive), commit)?;
    let sbom = format!("{name}.cdx.json");
    fs::write(folder.join(&sbom), sbom::write(&target.name)?)?;
    Ok(vec![archive, sbom])
}

/// The static binary of a target.
pub(crate) fn build(target: &Target, commit: &Commit) -> Result<PathBuf> {
    let mut build = workspace::cargo();
    build
        .args(["build", "--release", "--locked", "--package", "steersman"])
        .args(["--target", &target.name])
        .env("STEERSMAN_COMMIT", &commit.id)
        .env("STEERSMAN_BUILD_DATE", &commit.date)
        .envs(target.environment.iter().cloned());
    steps::succeed(&mut build)?;
    let binary = workspace::target()
        .join(&target.name)
        .join("release/steersman");
    let bytes = fs::read(&binary)?;
    match elf::interpreter(&bytes)? {
        None => Ok(binary),
        Some(loader) => bail!("{} is not static: it asks for {loader}", binary.display()),
    }
}

/// Man pages and completions are the binary's own.
pub(crate) fn write_help(steersman: &Path, stage: &Path) -> Result<()> {
    output(Command::new(steersman).arg("man").arg(stage.join("man")))?;
    for (shell, file) in [
        ("bash", "steersman.bash"),
        ("zsh", "_steersman"),
        ("fish", "steersman.fish"),
    ] {
        let script = output(Command::new(steersman).args(["completion", shell]))?;
        fs::write(stage.join("completions").join(file), script + "\n")?;
    }
    Ok(())
}

/// For targets whose binaries this machine cannot run.
fn host_binary() -> Result<PathBuf> {
    crate::real::build_steersman()?;
    Ok(workspace::target().join("debug/steersman"))
}

/// The same bytes for the same files, whoever packs them and when.
fn pack(stage: &Path, name: &str, archive: &Path, commit: &Commit) -> Result<()> {
    let parent = stage.parent().context("a folder has a parent")?;
    let mut tar = Command::new("tar");
    tar.arg("--create")
        .args(["--use-compress-program", "gzip --no-name --best"])
        .arg("--file")
        .arg(archive)
        .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
        .args([
            "--mode=go=rX,u+rw,a-s",
            &format!("--mtime=@{}", commit.seconds),
        ])
        .arg("--directory")
        .arg(parent)
        .arg(name);
    steps::succeed(&mut tar)
}

/// As `sha256sum --check` reads it.
fn checksums(folder: &Path, names: &[String]) -> Result<()> {
    let sums = output(Command::new("sha256sum").args(names).current_dir(folder))?;
    fs::write(folder.join("SHA256SUMS"), sums + "\n")?;
    Ok(())
}

fn version() -> Result<String> {
    let manifest = workspace::read(Path::new("Cargo.toml"))?;
    let manifest: toml::Value = toml::from_str(&manifest)?;
    let version = manifest["workspace"]["package"]["version"].as_str();
    version
        .map(str::to_owned)
        .context("Cargo.toml names no version")
}

fn git(arguments: &[&str]) -> Result<String> {
    output(
        Command::new("git")
            .args(arguments)
            .current_dir(workspace::root()),
    )
}

/// What a command said, without the last line end.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = steps::shown(command);
    let ran = command
        .output()
        .with_context(|| format!("`{shown}` cannot be run"))?;
    ensure!(
        ran.status.success(),
        "`{shown}` ended with {}: {}",
        ran.status,
        String::from_utf8_lossy(&ran.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&ran.stdout).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_files_give_the_same_archive_and_their_checksums_hold() {
        let folder = std::env::temp_dir().join(format!("steersman-dist-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let commit = Commit {
            id: "c0ffee".to_owned(),
            seconds: "1700000000".to_owned(),
            date: "2023-11-14T22:13:20Z".to_owned(),
        };
        for (place, order) in [("one", ["a", "b"]), ("two", ["b", "a"])] {
            let stage = folder.join(place).join("steersman");
            fs::create_dir_all(&stage).unwrap();
            for name in order {
                fs::write(stage.join(name), name).unwrap();
            }
            let archive = folder.join(format!("{place}.tar.gz"));
            pack(&stage, "steersman", &archive, &commit).unwrap();
        }
        let read = |name: &str| fs::read(folder.join(name)).unwrap();
        assert_eq!(read("one.tar.gz"), read("two.tar.gz"));
        checksums(&folder, &["one.tar.gz".to_owned()]).unwrap();
        let mut check = Command::new("sha256sum");
        check
            .args(["--check", "--strict", "SHA256SUMS"])
            .current_dir(&folder);
        assert_eq!(output(&mut check).unwrap(), "one.tar.gz: OK");
        fs::write(folder.join("one.tar.gz"), "another").unwrap();
        assert!(output(&mut check).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_commit_is_the_one_that_is_checked_out() {
        let commit = Commit::read().unwrap();
        assert!(commit.id.len() >= 40, "{}", commit.id);
        assert!(
            commit.date.ends_with('Z') && commit.date.len() == 20,
            "{}",
            commit.date
        );
        assert!(version().unwrap().split('.').count() == 3);
    }
}

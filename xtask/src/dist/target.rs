//! Whether a target can be built here, and what cargo has to know for it.

use std::path::PathBuf;
use std::process::Command;

use super::output;

pub(crate) struct Target {
    pub(crate) name: String,
    /// For cargo: the C compiler, and the linker where it is not the usual one.
    pub(crate) environment: Vec<(String, String)>,
}

impl Target {
    /// A target with all that it takes; else a sentence that says what is missing and how to get it.
    pub(crate) fn find(name: &str) -> Result<Target, String> {
        let environment = environment(name, std::env::consts::ARCH, on_path)?;
        let name = name.to_owned();
        let listed = output(Command::new("rustup").args(["target", "list", "--installed"]));
        let listed = listed.map_err(|error| format!("{error:#}; rustup knows the targets"))?;
        if !listed.lines().any(|line| line == name) {
            println!("rustup adds the target {name}");
            let added = output(Command::new("rustup").args(["target", "add", &name]));
            added.map_err(|error| format!("{error:#}"))?;
        }
        Ok(Target { name, environment })
    }

    pub(crate) fn runs_here(&self) -> bool {
        self.name
            .starts_with(&format!("{}-", std::env::consts::ARCH))
            && cfg!(target_os = "linux")
    }
}

/// For a machine's own kind of processor the usual C compiler does: Rust brings musl along. For another one its C compiler
/// has to be there, which links as well.
fn environment(
    name: &str,
    machine: &str,
    has: impl Fn(&str) -> bool,
) -> Result<Vec<(String, String)>, String> {
    let (architecture, rest) = name.split_once('-').unwrap_or((name, ""));
    if !rest.ends_with("-musl") {
        return Err("static binaries are made for targets with musl alone".to_owned());
    }
    let compiler = match architecture == machine {
        true => ["musl-gcc".to_owned(), "cc".to_owned()],
        false => [
            format!("{architecture}-linux-musl-gcc"),
            format!("{architecture}-linux-gnu-gcc"),
        ],
    };
    let Some(found) = compiler.iter().find(|program| has(program)) else {
        return Err(format!(
            "there is no C compiler for it ({}); Debian has gcc-{}-linux-gnu",
            compiler.join(" or "),
            architecture.replace('_', "-")
        ));
    };
    let underscored = name.replace('-', "_");
    let mut environment = vec![(format!("CC_{underscored}"), found.clone())];
    if architecture != machine {
        let linker = format!("CARGO_TARGET_{}_LINKER", underscored.to_uppercase());
        environment.push((linker, found.clone()));
    }
    Ok(environment)
}

pub(super) fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder: PathBuf| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, programs: &[&str]) -> Result<Vec<String>, String> {
        let found = environment(name, "x86_64", |program| programs.contains(&program))?;
        let pairs = found.iter().map(|(name, value)| format!("{name}={value}"));
        Ok(pairs.collect())
    }

    #[test]
    fn the_machines_own_kind_needs_the_usual_compiler() {
        let own = "x86_64-unknown-linux-musl";
        assert_eq!(
            of(own, &["cc"]).unwrap(),
            ["CC_x86_64_unknown_linux_musl=cc"]
        );
        assert_eq!(
            of(own, &["cc", "musl-gcc"]).unwrap(),
            ["CC_x86_64_unknown_linux_musl=musl-gcc"]
        );
    }

    #[test]
    fn another_kind_needs_its_own_and_says_so() {
        let other = "aarch64-unknown-linux-musl";
        let refused = of(other, &["cc"]).unwrap_err();
        assert!(
            refused.ends_with("Debian has gcc-aarch64-linux-gnu"),
            "{refused}"
        );
        let found = of(other, &["cc", "aarch64-linux-gnu-gcc"]).unwrap();
        assert_eq!(
            found,
            [
                "CC_aarch64_unknown_linux_musl=aarch64-linux-gnu-gcc",
                "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=aarch64-linux-gnu-gcc",
            ]
        );
        assert!(of("x86_64-unknown-linux-gnu", &["cc"]).is_err());
    }
}

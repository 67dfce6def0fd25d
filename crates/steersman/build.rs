//! How a release is linked: what is not in the binary need not be in memory.
//!
//! Only where the linker is known to understand it; everywhere else the binary does the same, but is larger. Who
//! brings a linker of their own says `STEERSMAN_LINK=plain`.

use std::process::Command;

/// Made by `cargo xtask start-order`.
const START: &str = "start.ld";

fn main() {
    for file in ["build.rs", START] {
        println!("cargo::rerun-if-changed={file}");
    }
    println!("cargo::rerun-if-env-changed=STEERSMAN_LINK");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    // The toolchain brings LLD with it for this target, and uses it.
    let target = variable("TARGET") == "x86_64-unknown-linux-gnu";
    if !target || variable("PROFILE") != "release" || variable("STEERSMAN_LINK") == "plain" {
        return;
    }
    // What a controller manager runs lies side by side: the rest need not be in memory.
    let folder = variable("CARGO_MANIFEST_DIR");
    println!("cargo::rustc-link-arg-bins=-Wl,-T,{folder}/{START}");
    // Functions that came out the same are one. Nothing here depends on two functions having two addresses.
    println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    // A megabyte of relocations becomes some kilobytes, for a loader that knows them.
    if variable("HOST") == variable("TARGET") && libc_version() >= Some((2, 36)) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The C library here, which is the oldest one that a binary built here can count on.
fn libc_version() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let text = String::from_utf8(output.ok()?.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

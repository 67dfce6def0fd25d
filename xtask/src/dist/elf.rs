//! Whether a binary is static: what ELF files say about their loader.

use anyhow::{Context, Result, ensure};

/// The program header of a loader.
const INTERPRETER: u32 = 3;

/// The loader that a 64-bit little-endian ELF file asks for; none of a static one.
pub(crate) fn interpreter(file: &[u8]) -> Result<Option<String>> {
    ensure!(
        file.starts_with(b"\x7fELF\x02\x01"),
        "it is no 64-bit little-endian ELF file"
    );
    let number = |at: usize, bytes: usize| -> Result<usize> {
        let slice = file
            .get(at..at + bytes)
            .context("the ELF file is cut off")?;
        let mut all = [0; 8];
        all[..bytes].copy_from_slice(slice);
        Ok(usize::try_from(u64::from_le_bytes(all))?)
    };
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for index in 0..count {
        let header = table + index * size;
        if number(header, 4)? == INTERPRETER as usize {
            let (offset, length) = (number(header + 8, 8)?, number(header + 32, 8)?);
            let name = file.get(offset..offset + length);
            let name = name.context("the ELF file is cut off")?;
            let name = String::from_utf8_lossy(name);
            return Ok(Some(name.trim_end_matches('\0').to_owned()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with one program header of this type, whose bytes are at the end.
    fn file(kind: u32) -> Vec<u8> {
        let mut file = vec![0; 64 + 56];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[32] = 64;
        file[54] = 56;
        file[56] = 1;
        file[64..68].copy_from_slice(&kind.to_le_bytes());
        file[72] = 120;
        file[96] = 5;
        file.extend(b"/ld\0\0");
        file
    }

    #[test]
    fn a_binary_with_a_loader_is_not_static() {
        assert_eq!(interpreter(&file(3)).unwrap().as_deref(), Some("/ld"));
        assert_eq!(interpreter(&file(1)).unwrap(), None);
        // This very test is linked as usual here.
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(
            interpreter(&own)
                .unwrap()
                .is_some_and(|loader| loader.contains("ld"))
        );
    }

    #[test]
    fn what_is_no_such_file_is_refused() {
        assert!(interpreter(b"#!/bin/sh").is_err());
        assert!(interpreter(&file(3)[..100]).is_err());
    }
}

//! One object as the database holds it: a checksum, the revision, the JSON.
//!
//! The engine checks its pages after a crash, not when they are read. What a disk returns years later is checked here,
//! and with it that it was stored under this key.

use super::table::TableKey;

/// The checksum (4 bytes) and the revision (8 bytes), little endian.
pub(super) const HEAD: usize = 12;

/// An object as it was found on the disk.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) table: TableKey,
    pub(crate) key: String,
    pub(crate) revision: u64,
    pub(crate) body: Vec<u8>,
}

/// `group NUL plural NUL key`, which is the order of lists.
pub(super) fn key_of(table: &TableKey, key: &str) -> String {
    format!("{}\0{}\0{key}", table.0, table.1)
}

/// Writes a record, which is [`HEAD`] longer than the body.
pub(super) fn encode(key: &[u8], revision: u64, body: &[u8], record: &mut [u8]) {
    let revision = revision.to_le_bytes();
    let (sum, rest) = record.split_at_mut(4);
    let (head, tail) = rest.split_at_mut(8);
    sum.copy_from_slice(&checksum(&[key, &revision, body]).to_le_bytes());
    head.copy_from_slice(&revision);
    tail.copy_from_slice(body);
}

/// Nothing if it is not what was written under this key, or not text.
pub(super) fn decode(key: &[u8], record: &[u8]) -> Option<Row> {
    let (sum, rest) = record.split_first_chunk()?;
    let (revision, body) = rest.split_first_chunk()?;
    if u32::from_le_bytes(*sum) != checksum(&[key, revision, body]) {
        return None;
    }
    let mut parts = str::from_utf8(key).ok()?.splitn(3, '\0');
    let (group, plural, name) = (parts.next()?, parts.next()?, parts.next()?);
    str::from_utf8(body).ok()?;
    Some(Row {
        table: (group.to_owned().into(), plural.to_owned().into()),
        key: name.to_owned(),
        revision: u64::from_le_bytes(*revision),
        body: body.to_owned(),
    })
}

pub(super) fn checksum(parts: &[&[u8]]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    parts.iter().for_each(|part| sum.update(part));
    sum.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &str, body: &[u8]) -> Vec<u8> {
        let mut record = vec![0; HEAD + body.len()];
        encode(key.as_bytes(), 7, body, &mut record);
        record
    }

    #[test]
    fn a_record_is_found_again_under_its_key_alone() {
        let key = "apps\0deployments\0default/web";
        let whole = record(key, b"{}");
        let row = decode(key.as_bytes(), &whole).unwrap();
        assert_eq!((&*row.table.0, &*row.table.1), ("apps", "deployments"));
        assert_eq!((&*row.key, row.revision), ("default/web", 7));
        assert_eq!(row.body, b"{}");
        assert!(decode(b"apps\0deployments\0default/wob", &whole).is_none());
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        let whole = record("\0pods\0a/b", b"{\"a\":1}");
        for place in 0..whole.len() {
            let mut record = whole.clone();
            record[place] ^= 4;
            assert!(decode(b"\0pods\0a/b", &record).is_none(), "{place}");
            record.truncate(place);
            assert!(decode(b"\0pods\0a/b", &record).is_none(), "{place}");
        }
    }

    #[test]
    fn what_is_no_text_is_no_object() {
        assert!(decode(b"\0pods\0a", &record("\0pods\0a", b"\xff")).is_none());
        let key = b"\0pods\0\xff";
        let mut whole = vec![0; HEAD];
        encode(key, 7, b"", &mut whole);
        assert!(decode(key, &whole).is_none());
    }
}

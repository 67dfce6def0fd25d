//! Places of names, found with one look: a small table that is made once and never changes.

/// Where no name is.
const FREE: u8 = u8::MAX;

#[derive(Debug, Default)]
pub(super) struct Lookup {
    /// Places of names, where their hashes point to or after it. At least half of it is free, so that one look
    /// nearly always suffices, and its length is a power of two.
    slots: Box<[u8]>,
}

impl Lookup {
    /// Nothing if there are too many.
    pub(super) fn new(names: &[&str]) -> Option<Lookup> {
        if names.len() >= usize::from(FREE) {
            return None;
        }
        let mut slots = vec![FREE; (names.len() * 2).next_power_of_two()].into_boxed_slice();
        for (place, name) in names.iter().enumerate() {
            let mut slot = hash(name) & (slots.len() - 1);
            while slots[slot] != FREE {
                slot = (slot + 1) & (slots.len() - 1);
            }
            slots[slot] = u8::try_from(place).ok()?;
        }
        Some(Lookup { slots })
    }

    /// The place of a name; `name_at` tells the name of a place.
    pub(super) fn find<'a>(&self, name: &str, name_at: impl Fn(usize) -> &'a str) -> Option<usize> {
        let last = self.slots.len().checked_sub(1)?;
        let mut slot = hash(name) & last;
        loop {
            match self.slots[slot] {
                FREE => return None,
                place if name_at(usize::from(place)) == name => return Some(usize::from(place)),
                _ => slot = (slot + 1) & last,
            }
        }
    }
}

/// Names of fields differ early, late or in length.
fn hash(name: &str) -> usize {
    let bytes = name.as_bytes();
    let byte = |index: usize| bytes.get(index).map_or(0, |byte| u32::from(*byte));
    let end = bytes.len();
    let ends = byte(0) | byte(2) << 8 | byte(end / 2) << 16 | byte(end.wrapping_sub(1)) << 24;
    let mixed = (ends ^ (end as u32) << 4).wrapping_mul(0x9e37_79b1);
    (mixed >> 20) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_others_are_not() {
        for count in [0, 1, 2, 7, 40, 254] {
            let names: Vec<String> = (0..count).map(|number| format!("name{number}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let lookup = Lookup::new(&names).unwrap();
            for (place, name) in names.iter().enumerate() {
                assert_eq!(lookup.find(name, |place| names[place]), Some(place));
            }
            for other in ["", "n", "name", "name254", "nam0"] {
                assert_eq!(lookup.find(other, |place| names[place]), None, "{other}");
            }
        }
        assert!(Lookup::new(&["x"; 255]).is_none());
    }
}

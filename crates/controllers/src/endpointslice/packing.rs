//! Puts the endpoints of one group into slices: fills, and does not reshuffle.
//!
//! What is in a slice stays there. Slices that have to be written anyway are filled first, the fullest of them before
//! the others; what is left goes into one slice that it fits into, or into new ones. So a change of one pod is a write
//! of one slice, whatever the number of endpoints.

use std::sync::Arc;

use api::collections::HashMap;
use api::kinds::{EndpointPort, EndpointSlice, Hints, Service};

use super::desired::{Group, Wanted};
use super::ownership::is_relabeled;

/// A slice as it should be.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The one that it is now, by its place in the snapshot; none for a new one.
    pub slice: Option<usize>,
    /// It takes the place of a slice that had other ports, and keeps nothing of it but the name.
    pub replaces: bool,
    pub ports: Arc<[EndpointPort]>,
    /// Endpoints, by their place among those that are desired.
    pub members: Vec<u32>,
    /// The hints of each of them.
    pub hints: Vec<Option<Arc<Hints>>>,
}

/// What becomes of the slices of a group, or of a family.
#[derive(Default)]
pub struct Packed {
    pub create: Vec<Draft>,
    pub update: Vec<Draft>,
    pub unchanged: Vec<Draft>,
    pub delete: Vec<usize>,
    /// How many endpoints come to slices, and go from them.
    pub added: usize,
    pub removed: usize,
}

impl Draft {
    pub fn new(ports: &Arc<[EndpointPort]>) -> Draft {
        Draft {
            slice: None,
            replaces: false,
            ports: ports.clone(),
            members: Vec::new(),
            hints: Vec::new(),
        }
    }

    fn push(&mut self, member: u32, hints: Option<Arc<Hints>>) {
        self.members.push(member);
        self.hints.push(hints);
    }

    fn fill(&mut self, rest: &mut dyn Iterator<Item = u32>, most: usize) {
        let room = most.saturating_sub(self.members.len());
        for member in rest.take(room) {
            self.push(member, None);
        }
    }
}

/// Packs a group into its slices and as many new ones as it takes.
pub fn pack(
    service: &Service,
    endpoints: &[Wanted<'_>],
    group: &Group,
    slices: &[(usize, &EndpointSlice)],
    most: usize,
) -> Packed {
    let mut packed = Packed::default();
    let mut wanted: HashMap<u64, u32> = HashMap::default();
    wanted.reserve(group.members.len());
    for member in &group.members {
        wanted.insert(endpoints[*member as usize].known.identity, *member);
    }
    for (number, slice) in slices {
        packed.keep(service, endpoints, &mut wanted, *number, slice);
    }
    // In the order of the pods, and not in that of the map.
    let is_left = |member: &&u32| {
        let identity = endpoints[**member as usize].known.identity;
        wanted.get(&identity) == Some(*member)
    };
    let rest: Vec<u32> = group.members.iter().filter(is_left).copied().collect();
    packed.added = rest.len();
    packed.place(&rest, group, most);
    packed
}

impl Packed {
    /// Keeps of a slice what is still wanted.
    fn keep(
        &mut self,
        service: &Service,
        endpoints: &[Wanted<'_>],
        wanted: &mut HashMap<u64, u32>,
        number: usize,
        slice: &EndpointSlice,
    ) {
        let mut draft = Draft::new(&slice.ports);
        draft.slice = Some(number);
        let mut is_changed = false;
        for held in &slice.endpoints {
            if let Some(member) = wanted.remove(&held.identity) {
                is_changed |= !endpoints[member as usize].known.is_same(held);
                draft.push(member, held.hints.clone());
            }
        }
        let gone = slice.endpoints.len() - draft.members.len();
        self.removed += gone;
        if is_changed || gone > 0 {
            if draft.members.is_empty() {
                self.delete.push(number);
                return;
            }
            // UPSTREAM: what is written is recreated from pods, which give no hints.
            draft.hints.fill(None);
            self.update.push(draft);
        } else if is_relabeled(slice, service) {
            self.update.push(draft);
        } else {
            self.unchanged.push(draft);
        }
    }

    /// Places what is in no slice yet.
    fn place(&mut self, rest: &[u32], group: &Group, most: usize) {
        let mut left = rest.iter().copied();
        self.update
            .sort_by_key(|draft| std::cmp::Reverse(draft.members.len()));
        for draft in &mut self.update {
            draft.fill(&mut left, most);
        }
        while left.len() > 0 {
            let room = match left.len() < most {
                true => closest_to_full(&self.unchanged, left.len(), most),
                false => None,
            };
            let Some(index) = room else {
                let mut draft = Draft::new(&group.ports);
                draft.fill(&mut left, most);
                self.create.push(draft);
                continue;
            };
            let mut draft = self.unchanged.remove(index);
            draft.fill(&mut left, most);
            self.update.push(draft);
        }
    }

    /// Adds what becomes of the slices of another group.
    pub fn append(&mut self, mut other: Packed) {
        self.create.append(&mut other.create);
        self.update.append(&mut other.update);
        self.unchanged.append(&mut other.unchanged);
        self.delete.append(&mut other.delete);
        self.added += other.added;
        self.removed += other.removed;
    }
}

/// The slice that is fullest once it has taken them all; none if none can.
fn closest_to_full(slices: &[Draft], count: usize, most: usize) -> Option<usize> {
    let room = |draft: &Draft| most.checked_sub(draft.members.len() + count);
    let rooms = slices.iter().enumerate();
    let rooms = rooms.filter_map(|(index, draft)| Some((room(draft)?, index)));
    rooms.min().map(|(_, index)| index)
}

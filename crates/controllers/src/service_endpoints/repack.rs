//! Subsets in the form that says the same with the fewest of them.

use std::collections::BTreeMap;

use api::kinds::{Address, Subset, SubsetPort};

/// Each address once, and ports that the same addresses have together. An address that is ready and not ready at the
/// same port is not ready.
pub fn repack<'a>(subsets: &[Subset<'a>]) -> Vec<Subset<'a>> {
    // An address is told from others by what it stands for, too: hosts may share one.
    type AddressKey<'b> = (&'b str, &'b str);
    let mut known: BTreeMap<AddressKey<'_>, &Address<'a>> = BTreeMap::new();
    let mut by_port: BTreeMap<Option<&SubsetPort>, BTreeMap<AddressKey<'_>, bool>> =
        BTreeMap::new();
    for subset in subsets {
        let ports: Vec<Option<&SubsetPort>> = match subset.ports.as_slice() {
            [] => vec![None],
            ports => ports.iter().map(Some).collect(),
        };
        let ready = subset.addresses.iter().map(|address| (address, true));
        let others = subset.not_ready_addresses.iter();
        for (address, ready) in ready.chain(others.map(|address| (address, false))) {
            let target = address.target_ref.as_ref();
            let key = (&*address.ip, target.map_or("", |target| &*target.uid));
            known.entry(key).or_insert(address);
            for port in &ports {
                let addresses = by_port.entry(*port).or_default();
                addresses
                    .entry(key)
                    .and_modify(|held| *held &= ready)
                    .or_insert(ready);
            }
        }
    }
    let mut packed: BTreeMap<Vec<(AddressKey<'_>, bool)>, Vec<SubsetPort>> = BTreeMap::new();
    for (port, addresses) in by_port {
        let addresses: Vec<(AddressKey<'_>, bool)> = addresses.into_iter().collect();
        packed.entry(addresses).or_default().extend(port.cloned());
    }
    let subset = |(addresses, ports): (Vec<(AddressKey<'_>, bool)>, Vec<SubsetPort>)| {
        let which = |wanted: bool| {
            let of = addresses.iter().filter(|(_, ready)| *ready == wanted);
            of.filter_map(|(key, _)| known.get(key).copied().cloned())
                .collect()
        };
        Subset {
            addresses: which(true),
            not_ready_addresses: which(false),
            ports,
        }
    };
    let mut repacked: Vec<Subset<'a>> = packed.into_iter().map(subset).collect();
    repacked.sort_by(|one, two| one.ports.cmp(&two.ports));
    repacked
}

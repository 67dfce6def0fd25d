//! Checks ranges against all addresses there are.

use std::net::IpAddr;

use api::Meta;
use api::kinds::{IpAddress, ServiceCidr};

use super::{DESCRIPTOR, can_go, converged, safe};
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

const UNUSED: &str = "ranges of services go when no address depends on them";

#[derive(Default)]
pub struct ServiceCidrOracle;

impl Oracle for ServiceCidrOracle {
    fn after_write(&self, world: &World, change: &Change) -> Verdict {
        if let Some((before, after)) = change.updated::<ServiceCidr>() {
            return safe(&before, &after);
        }
        let Some(gone) = change.gone::<ServiceCidr>() else {
            return no_business(DESCRIPTOR.name, change);
        };
        let all = world.store::<ServiceCidr>().list();
        let sight = world.sight(&all);
        let sight = sight.max(world.sight(&world.store::<IpAddress>().list()));
        world.check(UNUSED, sight, || {
            let orphan = can_go(&gone, &all, allocated(world).into_iter()).err();
            orphan.map_or(Ok(()), |orphan| {
                let name = &gone.metadata.name;
                Err(format!(
                    "ServiceCIDR {name} is gone, and {orphan} depends on it"
                ))
            })
        })
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let all = world.store::<ServiceCidr>().list();
        let addresses = allocated(world);
        all.iter()
            .try_for_each(|cidr| converged(cidr, &all, addresses.iter().copied()))
    }

    fn may_stay(&self, world: &World, plural: &str, meta: &Meta) -> bool {
        let all = world.store::<ServiceCidr>();
        let held = all
            .find("", &meta.name)
            .filter(|_| plural == "servicecidrs");
        held.is_some_and(|cidr| can_go(&cidr, &all.list(), allocated(world).into_iter()).is_err())
    }
}

fn allocated(world: &World) -> Vec<IpAddr> {
    let held = world.store::<IpAddress>().list();
    let addresses = held.iter().filter_map(|address| address.allocated());
    addresses.collect()
}

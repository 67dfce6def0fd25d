//! What must hold: always ([`safe`]), and once nothing changes any more ([`converged`]).

use api::Meta;
use api::kinds::{ConfigMap, Namespace, ROOT_CA_CONFIG_MAP};

use super::DESCRIPTOR;
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct RootCaOracle;

impl Oracle for RootCaOracle {
    fn after_write(&self, _world: &World, change: &Change) -> Verdict {
        match change.after::<ConfigMap>() {
            Some(written) => safe(&written.metadata),
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        for namespace in world.store::<Namespace>().list() {
            if namespace.status.phase == "Active" {
                let name = &namespace.metadata.name;
                let held = world.store::<ConfigMap>().find(name, ROOT_CA_CONFIG_MAP);
                converged(held.as_deref(), world.run.root_ca)
                    .map_err(|problem| format!("namespace {name}: {problem}"))?;
            }
        }
        Ok(())
    }
}

/// Is this what every namespace should have?
pub fn converged(held: Option<&ConfigMap>, root_ca: &str) -> Result<(), String> {
    let Some(map) = held else {
        return Err(format!("there is no {ROOT_CA_CONFIG_MAP}"));
    };
    let certificates = map.data.get("ca.crt").filter(|_| map.data.len() == 1);
    match certificates.is_some_and(|held| **held == *root_ca) {
        true => Ok(()),
        false => Err(format!(
            "{} does not hold the root certificates",
            map.metadata.key()
        )),
    }
}

/// Nothing is written but that one ConfigMap: `written` was created or changed by the controller.
pub fn safe(written: &Meta) -> Result<(), String> {
    match *written.name == *ROOT_CA_CONFIG_MAP {
        true => Ok(()),
        false => Err(format!("{} is not the publisher's to write", written.key())),
    }
}

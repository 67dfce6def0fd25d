//! What is read of a pod's affinity, in JSON or in protobuf.

use serde::{Deserialize, Deserializer};

use crate::intern::Istr;
use crate::node_affinity::{Affinity, NodeSelectorOperator};
use crate::pod_affinity::PodAffinity;
use crate::protobuf::{Malformed, Message, Value, descend};

/// What is read of a pod's affinity.
#[derive(Default)]
pub(super) struct ReadAffinity {
    /// The one node that it allows by name.
    pub(super) node: Istr,
    pub(super) crosses_namespaces: bool,
}

/// The field by which an affinity names a node.
const NODE_NAME: &str = "metadata.name";

pub(super) fn read_affinity<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<ReadAffinity, D::Error> {
    let affinity: Option<Affinity> = Deserialize::deserialize(deserializer)?;
    let Some(affinity) = affinity else {
        return Ok(ReadAffinity::default());
    };
    let of_pods = [&affinity.pod_affinity, &affinity.pod_anti_affinity];
    let mut of_pods = of_pods.into_iter().flatten();
    Ok(ReadAffinity {
        crosses_namespaces: of_pods.any(|affinity| crosses_namespaces(affinity)),
        node: node_by_name(&affinity),
    })
}

/// Does it look at pods of other namespaces?
fn crosses_namespaces(affinity: &PodAffinity) -> bool {
    let preferred = affinity.preferred.iter();
    let terms = preferred.map(|weighted| &weighted.pod_affinity_term);
    affinity
        .required
        .iter()
        .chain(terms)
        .any(|term| !term.namespaces.is_empty() || term.namespace_selector.is_some())
}

/// The node that the first requirement on a node's name allows, if it allows just one.
fn node_by_name(affinity: &Affinity) -> Istr {
    let required = affinity.node_affinity.as_ref();
    let required = required.and_then(|affinity| affinity.required.as_ref());
    let terms = required.map_or(&[][..], |required| &required.node_selector_terms);
    let named = terms
        .iter()
        .flat_map(|term| term.match_fields.iter())
        .find(|field| field.key == NODE_NAME && field.operator == NodeSelectorOperator::In);
    match named.map(|field| &*field.values) {
        Some([only]) => only.clone(),
        _ => Istr::default(),
    }
}

/// The same from protobuf.
pub(super) fn read_affinity_in_message(affinity: Value<'_>) -> Result<ReadAffinity, Malformed> {
    /// Affinity and anti-affinity to pods; required terms, and those with a weight; namespaces and their selector.
    const OTHER_NAMESPACES: [&[u32]; 8] = [
        &[2, 1, 2],
        &[2, 1, 4],
        &[2, 2, 2, 2],
        &[2, 2, 2, 4],
        &[3, 1, 2],
        &[3, 1, 4],
        &[3, 2, 2, 2],
        &[3, 2, 2, 4],
    ];
    let mut crosses_namespaces = false;
    for path in OTHER_NAMESPACES {
        descend(affinity, path, &mut |_| {
            crosses_namespaces = true;
            Ok(())
        })?;
    }
    Ok(ReadAffinity {
        crosses_namespaces,
        node: node_by_name_in_message(affinity)?,
    })
}

fn node_by_name_in_message(affinity: Value<'_>) -> Result<Istr, Malformed> {
    /// Node affinity, required, terms, requirements on fields.
    const MATCH_FIELDS: [u32; 4] = [1, 1, 1, 2];
    let mut named: Option<Requirement<'_>> = None;
    descend(affinity, &MATCH_FIELDS, &mut |requirement| {
        let requirement: Requirement<'_> = requirement.message()?;
        if requirement.key == NODE_NAME && requirement.operator == "In" {
            named.get_or_insert(requirement);
        }
        Ok(())
    })?;
    Ok(match named.as_ref().map(|named| named.values.as_slice()) {
        Some([only]) => Istr::new(only),
        _ => Istr::default(),
    })
}

#[derive(Default)]
struct Requirement<'a> {
    key: &'a str,
    operator: &'a str,
    values: Vec<&'a str>,
}

impl<'a> Message<'a> for Requirement<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.key = value.text()?,
            2 => self.operator = value.text()?,
            3 => self.values.push(value.text()?),
            _ => {}
        }
        Ok(())
    }
}

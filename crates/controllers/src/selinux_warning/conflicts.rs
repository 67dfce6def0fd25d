//! Which pods use a volume in ways that conflict. Pure.

use std::collections::{BTreeMap, BTreeSet};

use api::{Istr, Key};

/// Who uses which volume, and how.
#[derive(Debug, Default)]
pub struct Volumes {
    by_name: BTreeMap<Istr, Used>,
    by_pod: BTreeMap<Key, BTreeSet<Istr>>,
}

#[derive(Debug, Default)]
struct Used {
    /// None if the volume is not one of CSI.
    driver: Option<Istr>,
    pods: BTreeMap<Key, Use>,
}

/// How a pod uses a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// `user:role:type:level`, or empty.
    pub label: Istr,
    pub policy: Istr,
}

/// What `pod` should be told of another that uses the same volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub property: Property,
    pub pod: Key,
    pub value: Istr,
    pub other: Key,
    pub other_value: Istr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    ChangePolicy,
    Label,
}

impl Property {
    pub fn name(self) -> &'static str {
        match self {
            Property::ChangePolicy => "SELinuxChangePolicy",
            Property::Label => "SELinuxLabel",
        }
    }

    pub fn reason(self) -> &'static str {
        match self {
            Property::ChangePolicy => "SELinuxChangePolicyConflict",
            Property::Label => "SELinuxLabelConflict",
        }
    }
}

impl Conflict {
    /// A pod of another namespace is not named.
    pub fn message(&self) -> String {
        let (name, value) = (self.property.name(), &self.value);
        let end = "If both pods land on the same node, only one of them may access the volume.";
        match self.pod.namespace == self.other.namespace {
            true => format!(
                "{name} \"{value}\" conflicts with pod {} that uses the same volume as this pod with {name} \"{}\". {end}",
                self.other.name, self.other_value
            ),
            // UPSTREAM: without a space before the value.
            false => format!(
                "{name}\"{value}\" conflicts with another pod that uses the same volume as this pod with a different {name}. \
                 {end}"
            ),
        }
    }

    fn of(one: (&Key, &Use), two: (&Key, &Use)) -> Vec<Conflict> {
        let mut found = Vec::new();
        let mut both = |property, values: fn(&Use) -> &Istr| {
            for ((pod, held), (other, others)) in [(one, two), (two, one)] {
                found.push(Conflict {
                    property,
                    pod: pod.clone(),
                    value: values(held).clone(),
                    other: other.clone(),
                    other_value: values(others).clone(),
                });
            }
        };
        if one.1.policy != two.1.policy {
            both(Property::ChangePolicy, |held| &held.policy);
        }
        if labels_conflict(&one.1.label, &two.1.label) {
            both(Property::Label, |held| &held.label);
        }
        found
    }
}

impl Volumes {
    /// A pod uses a volume: gives the conflicts that this makes, none if it was known.
    pub fn add(
        &mut self,
        volume: &Istr,
        driver: Option<Istr>,
        pod: &Key,
        used: Use,
    ) -> Vec<Conflict> {
        let held = self.by_name.entry(volume.clone()).or_default();
        held.driver = driver;
        if held.pods.get(pod) == Some(&used) {
            return Vec::new();
        }
        let volumes = self.by_pod.entry(pod.clone()).or_default();
        volumes.insert(volume.clone());
        held.pods.insert(pod.clone(), used.clone());
        let others = held.pods.iter().filter(|(other, _)| *other != pod);
        others
            .flat_map(|other| Conflict::of((pod, &used), other))
            .collect()
    }

    /// A pod is over or gone.
    pub fn remove(&mut self, pod: &Key) {
        for volume in self.by_pod.remove(pod).unwrap_or_default() {
            if let Some(held) = self.by_name.get_mut(&volume) {
                held.pods.remove(pod);
                if held.pods.is_empty() {
                    self.by_name.remove(&volume);
                }
            }
        }
    }

    pub fn pods_of_driver(&self, driver: &str) -> Vec<Key> {
        let volumes = self.by_name.values();
        let volumes = volumes.filter(|held| held.driver.as_deref() == Some(driver));
        volumes.flat_map(|held| held.pods.keys().cloned()).collect()
    }

    /// All that there are, in both directions.
    pub fn conflicts(&self) -> Vec<Conflict> {
        let mut found = Vec::new();
        for held in self.by_name.values() {
            let pods: Vec<(&Key, &Use)> = held.pods.iter().collect();
            for (at, one) in pods.iter().enumerate() {
                for two in &pods[at + 1..] {
                    found.extend(Conflict::of(*one, *two));
                }
            }
        }
        found
    }
}

/// UPSTREAM: user, role and type may be filled in on the node, so what is empty conflicts with nothing; the level is what
/// it is.
pub fn labels_conflict(one: &str, two: &str) -> bool {
    let (one, two) = (parts(one), parts(two));
    let mut others = one.iter().zip(&two).take(3);
    let differ = |(one, two): (&&str, &&str)| one != two && !one.is_empty() && !two.is_empty();
    one[3] != two[3] || others.any(differ)
}

/// User, role, type and level; the level may have colons of its own.
fn parts(label: &str) -> [&str; 4] {
    let mut parts = label.splitn(4, ':');
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

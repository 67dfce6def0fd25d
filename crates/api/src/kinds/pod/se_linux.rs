//! What SELinux means for the volumes of a pod, as it stands on the wire and as it is kept.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::intern::Istr;
use crate::protobuf::{Malformed, Message, Value, descend};

/// How a pod asks that labels are set file by file.
pub const SELINUX_RECURSIVE: &str = "Recursive";
/// How labels are set by default, where the volume can be mounted with one.
pub const SELINUX_MOUNT_OPTION: &str = "MountOption";

/// How the containers of a pod want its volumes labelled. Nobody asks it of a volume that is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SeLinux {
    /// `spec.securityContext.seLinuxChangePolicy`.
    pub change_policy: Option<Istr>,
    /// The volumes that a container mounts, in the order of their names.
    pub mounts: Box<[Mounted]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    pub volume: Istr,
    /// Of those containers that have one: `user:role:type:level`, of which any part may be empty.
    pub labels: Box<[Istr]>,
}

impl SeLinux {
    /// None where no container mounts a volume that is kept.
    pub(super) fn read<'a>(
        pod: &SecurityContext<'_>,
        containers: impl Iterator<Item = (&'a SecurityContext<'a>, &'a [Mount<'a>])>,
        kept: impl Iterator<Item = &'a Istr>,
    ) -> Option<Box<SeLinux>> {
        let mut labels: BTreeMap<&str, Option<BTreeSet<Istr>>> =
            kept.map(|name| (&**name, None)).collect();
        if labels.is_empty() {
            return None;
        }
        for (container, mounts) in containers {
            let options = container.options.as_ref().or(pod.options.as_ref());
            for mount in mounts {
                if let Some(held) = labels.get_mut(&*mount.name) {
                    let held = held.get_or_insert_default();
                    held.extend(options.map(Options::label));
                }
            }
        }
        let mounted = labels.into_iter().filter_map(|(volume, labels)| {
            Some(Mounted {
                volume: Istr::new(volume),
                labels: labels?.into_iter().collect(),
            })
        });
        let mounts: Box<[Mounted]> = mounted.collect();
        let change_policy = pod.change_policy.as_deref().map(Istr::new);
        (!mounts.is_empty()).then(|| {
            Box::new(SeLinux {
                change_policy,
                mounts,
            })
        })
    }
}

/// Of a pod, or of a container, which has no policy.
#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct SecurityContext<'a> {
    #[serde(borrow, rename = "seLinuxOptions")]
    options: Option<Options<'a>>,
    #[serde(borrow, rename = "seLinuxChangePolicy")]
    change_policy: Option<Cow<'a, str>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Options<'a> {
    #[serde(borrow)]
    user: Cow<'a, str>,
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow, rename = "type")]
    type_: Cow<'a, str>,
    #[serde(borrow)]
    level: Cow<'a, str>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Mount<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

impl Options<'_> {
    /// UPSTREAM: what is left out is filled in on the node, whose defaults nobody knows here.
    fn label(&self) -> Istr {
        let label = format!("{}:{}:{}:{}", self.user, self.role, self.type_, self.level);
        match label.as_str() {
            ":::" => Istr::default(),
            label => Istr::new(label),
        }
    }
}

impl<'a> SecurityContext<'a> {
    /// Takes the one of a container, whose options have another number than those of a pod.
    pub(super) fn take_of_container(&mut self, value: Value<'a>) -> Result<(), Malformed> {
        const OPTIONS: [u32; 1] = [3];
        descend(value, &OPTIONS, &mut |options| {
            self.options = Some(options.message()?);
            Ok(())
        })
    }
}

/// The one of a pod.
impl<'a> Message<'a> for SecurityContext<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.options = Some(value.message()?),
            13 => self.change_policy = Some(value.text()?.into()),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Options<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        let part = match field {
            1 => &mut self.user,
            2 => &mut self.role,
            3 => &mut self.type_,
            4 => &mut self.level,
            _ => return Ok(()),
        };
        *part = value.text()?.into();
        Ok(())
    }
}

impl<'a> Message<'a> for Mount<'a> {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        if field == 1 {
            self.name = value.text()?.into();
        }
        Ok(())
    }
}

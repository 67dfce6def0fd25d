//! What a pod cannot ask of the operating system that it says it is for.

use super::place::{Errors, Place};

/// Of the security context of a pod or container, what Windows has not.
const NOT_ON_WINDOWS: [&str; 16] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "seLinuxChangePolicy",
];

pub(super) fn check(errors: &mut Errors, spec: &Place<'_>) {
    let os = spec.field("os");
    match os.field("name").text() {
        "windows" => {
            for name in ["hostPID", "hostIPC", "shareProcessNamespace"] {
                let place = spec.field(name);
                if place.flag() {
                    errors.forbidden(&place, "cannot be set for a windows pod");
                }
            }
            contexts(spec, |context| {
                for name in NOT_ON_WINDOWS {
                    let place = context.field(name);
                    if place.is_set() {
                        errors.forbidden(&place, "cannot be set for a windows pod");
                    }
                }
            });
        }
        "linux" => contexts(spec, |context| {
            let place = context.field("windowsOptions");
            if place.is_set() {
                errors.forbidden(&place, "windows options cannot be set for a linux pod");
            }
        }),
        _ => {}
    }
    host_processes(errors, spec);
}

/// The security context of the pod and those of its containers.
fn contexts(spec: &Place<'_>, mut see: impl FnMut(&Place<'_>)) {
    see(&spec.field("securityContext"));
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in spec.field(list).items() {
            see(&container.field("securityContext"));
        }
    }
}

/// A process on a Windows host is on its network too.
fn host_processes(errors: &mut Errors, spec: &Place<'_>) {
    let mut some = false;
    contexts(spec, |context| {
        some |= context.field("windowsOptions").field("hostProcess").flag();
    });
    let network = spec.field("hostNetwork");
    if some && !network.flag() {
        let no = false.into();
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&network.showing(&no), why);
    }
}

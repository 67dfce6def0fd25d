//! Defaults of the groups with few of them: networking, rbac, storage, admissionregistration and so on.

use serde_json::{Value, json};

use super::{Object, is_missing, object_in, set_empty, set_missing, text};

const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn of(name: &str) -> Option<fn(&mut Object)> {
    Some(match name {
        "api.certificates.v1beta1.PodCertificateRequestSpec" => {
            |spec| set_missing(spec, "maxExpirationSeconds", 86_400)
        }
        "api.networking.v1.NetworkPolicyPort" => |port| set_missing(port, "protocol", "TCP"),
        "api.networking.v1.NetworkPolicySpec" => network_policy,
        "api.networking.v1.IngressClassParametersReference" => {
            |reference| set_missing(reference, "scope", "Cluster")
        }
        "api.rbac.v1.RoleRef" => |reference| set_empty(reference, "apiGroup", RBAC),
        "api.rbac.v1.Subject" => |subject| {
            if matches!(text(subject, "kind"), "User" | "Group") {
                set_empty(subject, "apiGroup", RBAC);
            }
        },
        "api.storage.v1.StorageClass" => |class| {
            set_missing(class, "reclaimPolicy", "Delete");
            set_missing(class, "volumeBindingMode", "Immediate");
        },
        "api.storage.v1.CSIDriverSpec" => csi_driver,
        "api.discovery.v1.EndpointPort" => |port| {
            set_missing(port, "name", "");
            set_missing(port, "protocol", "TCP");
        },
        "api.scheduling.v1.PriorityClass" => {
            |class| set_missing(class, "preemptionPolicy", "PreemptLowerPriority")
        }
        "api.authentication.v1.TokenRequestSpec" => {
            |spec| set_missing(spec, "expirationSeconds", 3600)
        }
        "api.resource.v1.ExactDeviceRequest" | "api.resource.v1.DeviceSubRequest" => device_request,
        "api.resource.v1alpha3.ResourcePoolStatusRequestSpec" => {
            |spec| set_missing(spec, "limit", 100)
        }
        "api.resource.v1.DeviceToleration" => {
            |toleration| set_empty(toleration, "operator", "Equal")
        }
        _ => {
            return admission(name)
                .or_else(|| flow_control(name))
                .or_else(|| extensions(name));
        }
    })
}

fn admission(name: &str) -> Option<fn(&mut Object)> {
    Some(match name.strip_prefix("api.admissionregistration.v1.")? {
        "ValidatingWebhook" => webhook,
        "MutatingWebhook" => |hook| {
            webhook(hook);
            set_missing(hook, "reinvocationPolicy", "Never");
        },
        "RuleWithOperations" | "NamedRuleWithOperations" => |rule| set_missing(rule, "scope", "*"),
        "ServiceReference" => |reference| set_missing(reference, "port", 443),
        "ValidatingAdmissionPolicySpec" | "MutatingAdmissionPolicySpec" => {
            |spec| set_missing(spec, "failurePolicy", "Fail")
        }
        "MatchResources" => |resources| {
            set_missing(resources, "matchPolicy", "Equivalent");
            set_missing(resources, "namespaceSelector", json!({}));
            set_missing(resources, "objectSelector", json!({}));
        },
        _ => return None,
    })
}

fn flow_control(name: &str) -> Option<fn(&mut Object)> {
    Some(match name.strip_prefix("api.flowcontrol.v1.")? {
        // In the middle between the catch-all at 10000 and what is matched first.
        "FlowSchemaSpec" => |spec| set_empty(spec, "matchingPrecedence", 1000),
        "ExemptPriorityLevelConfiguration" => |level| {
            set_missing(level, "nominalConcurrencyShares", 0);
            set_missing(level, "lendablePercent", 0);
        },
        "LimitedPriorityLevelConfiguration" => |level| {
            set_missing(level, "nominalConcurrencyShares", 30);
            set_missing(level, "lendablePercent", 0);
        },
        "QueuingConfiguration" => |queuing| {
            set_empty(queuing, "handSize", 8);
            set_empty(queuing, "queues", 64);
            set_empty(queuing, "queueLengthLimit", 50);
        },
        _ => return None,
    })
}

fn extensions(name: &str) -> Option<fn(&mut Object)> {
    Some(match name {
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition" => {
            custom_resource_definition
        }
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.ServiceReference"
        | "kube-aggregator.pkg.apis.apiregistration.v1.ServiceReference" => {
            |reference| set_missing(reference, "port", 443)
        }
        _ => return None,
    })
}

fn network_policy(spec: &mut Object) {
    let mut types = vec![Value::from("Ingress")];
    if spec
        .get("egress")
        .is_some_and(|egress| !crate::fields::is_empty(egress))
    {
        types.push(Value::from("Egress"));
    }
    set_empty(spec, "policyTypes", types);
}

fn csi_driver(spec: &mut Object) {
    set_missing(spec, "attachRequired", true);
    for name in [
        "podInfoOnMount",
        "storageCapacity",
        "requiresRepublish",
        "seLinuxMount",
    ] {
        set_missing(spec, name, false);
    }
    set_missing(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    set_empty(spec, "volumeLifecycleModes", json!(["Persistent"]));
}

fn device_request(request: &mut Object) {
    set_empty(request, "allocationMode", "ExactCount");
    if text(request, "allocationMode") == "ExactCount" {
        set_empty(request, "count", 1);
    }
}

fn webhook(hook: &mut Object) {
    set_missing(hook, "failurePolicy", "Fail");
    set_missing(hook, "matchPolicy", "Equivalent");
    set_missing(hook, "namespaceSelector", json!({}));
    set_missing(hook, "objectSelector", json!({}));
    set_missing(hook, "timeoutSeconds", 10);
}

fn custom_resource_definition(definition: &mut Object) {
    let spec = object_in(definition, "spec");
    let names = object_in(spec, "names");
    let kind = text(names, "kind").to_owned();
    set_empty(names, "singular", kind.to_lowercase());
    if !kind.is_empty() {
        set_empty(names, "listKind", format!("{kind}List"));
    }
    if is_missing(spec, "conversion") {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    let versions = spec
        .get("versions")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let stored = versions
        .iter()
        .find(|version| version["storage"] == true)
        .map(|version| version["name"].clone());
    if let Some(stored) = stored {
        set_empty(
            object_in(definition, "status"),
            "storedVersions",
            vec![stored],
        );
    }
}

//! What a pod requests of a resource.

use api::kinds::Pod;

/// In thousandths: of one container, or of the whole pod. Words are upstream's.
pub(super) fn request_of(
    pod: &Pod,
    container: &str,
    resource: &str,
    pod_level: bool,
) -> Result<i64, String> {
    let (requests, name) = (&pod.body.requests, &pod.metadata.name);
    if pod_level && container.is_empty() && !requests.pod.is_empty() {
        return find(&requests.pod, resource)
            .ok_or_else(|| format!("missing pod-level request for {resource} in Pod {name}"));
    }
    let mut sum = 0_i64;
    for (called, held) in &requests.containers {
        if !container.is_empty() && *container != **called {
            continue;
        }
        let request = find(held, resource).ok_or_else(|| {
            format!("missing request for {resource} in container {called} of Pod {name}")
        })?;
        sum = sum.saturating_add(request);
        if *container == **called {
            return Ok(sum);
        }
    }
    match container.is_empty() {
        true => Ok(sum),
        false => Err(format!("container {container} not found in Pod {name}")),
    }
}

fn find(held: &[(api::Istr, i64)], resource: &str) -> Option<i64> {
    let found = held.iter().find(|(name, _)| name == resource);
    found.map(|(_, value)| *value)
}

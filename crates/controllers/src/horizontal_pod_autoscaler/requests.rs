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
        if let Some(request) = find(&requests.pod, resource) {
            return Ok(request);
        }
        // UPSTREAM: what the pod as a whole does not say is what its containers say together, as far as they do.
        let said: Vec<i64> = requests
            .containers
            .iter()
            .filter_map(|(_, held)| find(held, resource))
            .collect();
        return match said.is_empty() {
            true => Err(format!(
                "missing pod-level request for {resource} in Pod {name}"
            )),
            false => Ok(said.iter().fold(0, |sum, one| sum.saturating_add(*one))),
        };
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

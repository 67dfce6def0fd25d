//! UPSTREAM: how Workloads, their templates and PodGroups are called. Names are computed, so that another try, and another
//! manager, finds what an earlier one created.

use api::hash::Fnv32a;
use api::kinds::Job;
use api::names::safe_encode;

/// The longest name that an object may have.
const NAME_MAX: usize = 253;

/// The job's name, shortened where it has to be, and a hash of its uid.
pub fn workload_name(job: &Job) -> String {
    // UPSTREAM: what is hashed is Go's dump of the uid, with its type.
    let hash = hash(&["(types.UID)", &job.metadata.uid.to_string()]);
    let room = NAME_MAX - hash.len() - 1;
    format!("{}-{hash}", shortened(&job.metadata.name, room))
}

/// The only template, so far.
pub fn template_name(job: &Job) -> String {
    format!("{}-pgt-0", job.metadata.name)
}

/// Both names, each with at least half of the room, and a hash of the two.
pub fn pod_group_name(workload: &str, template: &str) -> String {
    let hash = hash(&[workload, template]);
    let room = NAME_MAX - hash.len() - 2;
    let half = room / 2;
    let (workload, template) = if workload.len() + template.len() <= room {
        (workload, template)
    } else if workload.len() <= half {
        (workload, shortened(template, room - workload.len()))
    } else if template.len() <= half {
        (shortened(workload, room - template.len()), template)
    } else {
        (shortened(workload, room - half), shortened(template, half))
    };
    format!("{workload}-{template}-{hash}")
}

fn hash(parts: &[&str]) -> String {
    let mut hash = Fnv32a::new();
    for part in parts {
        hash.write(part.as_bytes());
    }
    safe_encode(&hash.finish().to_string())
}

/// Names are ASCII.
fn shortened(name: &str, room: usize) -> &str {
    name.get(..room).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use api::Resource;
    use serde_json::json;

    use super::*;

    fn named(name: &str, uid: &str) -> String {
        let job = json!({"metadata": {"name": name, "namespace": "default", "uid": uid}});
        workload_name(&Job::decode(job.to_string().as_bytes()).unwrap())
    }

    // Upstream: TestComputeWorkloadName. The names are those that Go computes.
    #[test]
    fn a_workload_is_called_after_its_job_and_the_uid() {
        assert_eq!(named("my-job", "uid-123"), "my-job-795ddf89fd");
        let uid = "5f9ce3a2-9fd4-4b8f-8e3b-0c9c1d4a7e11";
        assert_eq!(named("my-job", uid), "my-job-7ccdc7489");
        let long = named(&"a".repeat(300), "uid-long");
        assert_eq!(long, format!("{}-799bb5c8bd", "a".repeat(242)));
        assert_eq!(long.len(), 253);
    }

    // Upstream: TestComputePodGroupName. The hashes are those that Go computes.
    #[test]
    fn a_group_is_called_after_workload_and_template() {
        let check = |workload: &str, template: &str, expected: String| {
            let name = pod_group_name(workload, template);
            assert_eq!(name, expected);
            assert!(name.len() <= 253, "{name}");
        };
        let (w, t) = (|count| "w".repeat(count), |count| "t".repeat(count));
        check(
            "my-workload",
            "my-template",
            "my-workload-my-template-67bd6bbcc4".into(),
        );
        check(&w(250), "tpl", format!("{}-tpl-5598d65b5", w(239)));
        check("wl", &t(250), format!("wl-{}-5c9dbd8778", t(239)));
        check(
            &w(200),
            &t(200),
            format!("{}-{}-6f9f45db49", w(121), t(120)),
        );
    }
}

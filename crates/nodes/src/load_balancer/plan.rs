//! Which address a Service gets, and what is to be done next. Pure but for the pool, which remembers what it gave.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use api::{Cidr, Key, Resource};

use super::Ranges;
use super::views::Service;

/// Keeps a Service until its load balancer is gone. Upstream's name.
pub(super) const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

/// One step: the change that it makes leads to the next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ServicePlan {
    Nothing,
    Protect,
    Publish(Vec<IpAddr>),
    Withdraw,
    Unprotect,
    /// It waits until an address is free, or its spec is changed.
    Refuse(PoolError),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    #[error("{0:?} is not a range of addresses such as 192.0.2.0/24")]
    NoRange(String),
    #[error("two ranges of the same family; give one IPv4 and one IPv6 range")]
    SameFamily,
    #[error("give one range, or one IPv4 and one IPv6 range")]
    TooMany,
    #[error(
        "{0} has no address for a Service, as the first and the last of a range are not given to any; give a range of four addresses or more, such as 192.0.2.0/30"
    )]
    TooSmall(String),
    #[error("no range has {0} addresses; see --load-balancer-range")]
    NoFamily(&'static str),
    #[error("all addresses of {0} are in use; see --load-balancer-range")]
    Exhausted(String),
    #[error("spec.loadBalancerIP {0} is not in {1}")]
    OutOfRange(String, String),
    #[error("spec.loadBalancerIP {0} is in use by service {1}")]
    Taken(String, Key),
}

pub(super) fn plan_service(
    service: &Service,
    all: &[Arc<Service>],
    pool: &mut Pool,
) -> ServicePlan {
    let status = &service.status.load_balancer;
    if !service.wants_address() {
        return match (service.is_served(), status.is_empty()) {
            (false, _) => ServicePlan::Nothing,
            (true, false) => ServicePlan::Withdraw,
            (true, true) => ServicePlan::Unprotect,
        };
    }
    if !service.is_served() {
        return ServicePlan::Protect;
    }
    let wanted = match pool.addresses(service, all) {
        Ok(wanted) => wanted,
        Err(problem) => return ServicePlan::Refuse(problem),
    };
    let published = status.ingress.iter().map(|point| point.ip.parse().ok());
    match published.eq(wanted.iter().copied().map(Some)) {
        true => ServicePlan::Nothing,
        false => ServicePlan::Publish(wanted),
    }
}

/// The addresses, and who has which: also those that no cache shows yet.
pub(super) struct Pool {
    ranges: Vec<Cidr>,
    given: BTreeMap<Key, Vec<IpAddr>>,
}

impl Pool {
    pub(super) fn new(ranges: Ranges) -> Pool {
        Pool {
            ranges: ranges.0,
            given: BTreeMap::new(),
        }
    }

    pub(super) fn release(&mut self, service: &Key) {
        self.given.remove(service);
    }

    /// The one address that all Ingresses share: the last of the first range.
    pub(super) fn shared(&self) -> String {
        let range = self.ranges.first();
        range.map_or_else(String::new, |range| range.nth(range.size() - 1).to_string())
    }

    /// One address for each family of the service. It keeps those that it has.
    fn addresses(
        &mut self,
        service: &Service,
        all: &[Arc<Service>],
    ) -> Result<Vec<IpAddr>, PoolError> {
        let key = service.key();
        let mut taken: BTreeMap<IpAddr, Key> = BTreeMap::new();
        for other in all.iter().filter(|other| other.key() != key) {
            let held = other.status.load_balancer.ingress.iter();
            let held = held.filter_map(|point| point.ip.parse().ok());
            taken.extend(held.map(|address| (address, other.key())));
        }
        for (other, held) in self.given.iter().filter(|(other, _)| **other != key) {
            taken.extend(held.iter().map(|address| (*address, other.clone())));
        }
        let held = service.status.load_balancer.ingress.iter();
        let held: Vec<IpAddr> = held.filter_map(|point| point.ip.parse().ok()).collect();
        let mut families: BTreeSet<bool> = service
            .spec
            .ip_families
            .iter()
            .map(|family| family == "IPv4")
            .collect();
        if families.is_empty() {
            families.insert(true);
        }
        let mut addresses = Vec::new();
        // IPv4 first, as most readers take the first one.
        for is_v4 in families.into_iter().rev() {
            let asked = &*service.spec.load_balancer_ip;
            let asked: Option<IpAddr> = asked.parse().ok();
            let asked = asked.filter(|address| address.is_ipv4() == is_v4);
            let held = held
                .iter()
                .chain(self.given.get(&key).into_iter().flatten());
            let held = held.copied().find(|address| address.is_ipv4() == is_v4);
            addresses.push(self.address(is_v4, asked, held, &taken)?);
        }
        self.given.insert(key, addresses.clone());
        Ok(addresses)
    }

    fn address(
        &self,
        is_v4: bool,
        asked: Option<IpAddr>,
        held: Option<IpAddr>,
        taken: &BTreeMap<IpAddr, Key>,
    ) -> Result<IpAddr, PoolError> {
        let range = self.ranges.iter().find(|range| range.is_ipv4() == is_v4);
        let range = range.ok_or(PoolError::NoFamily(if is_v4 { "IPv4" } else { "IPv6" }))?;
        if let Some(asked) = asked {
            return match (range.contains(&asked), taken.get(&asked)) {
                (false, _) => Err(PoolError::OutOfRange(asked.to_string(), range.to_string())),
                (true, Some(other)) => Err(PoolError::Taken(asked.to_string(), other.clone())),
                (true, None) => Ok(asked),
            };
        }
        let is_free = |address: &IpAddr| !taken.contains_key(address);
        if let Some(held) = held.filter(|held| range.contains(held) && is_free(held)) {
            return Ok(held);
        }
        // The first names the network, the last is for all Ingresses. As many as are taken cannot all be among one more
        // than that.
        let hosts = (1..range.size().saturating_sub(1)).map(|index| range.nth(index));
        let mut candidates = hosts.take(taken.len() + 1);
        let free = candidates.find(is_free);
        free.ok_or_else(|| PoolError::Exhausted(range.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(ranges: &str) -> Pool {
        Pool::new(Ranges::parse(ranges).unwrap())
    }

    /// `name type=LoadBalancer class=x asks=ip has=ip,ip served gone families=IPv4,IPv6`
    fn service(text: &str) -> Service {
        let mut words = text.split(' ');
        let mut service = Service::default();
        service.metadata.name = words.next().unwrap().into();
        service.spec.type_ = "LoadBalancer".into();
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            match name {
                "type" => service.spec.type_ = value.into(),
                "class" => service.spec.load_balancer_class = Some(value.into()),
                "asks" => service.spec.load_balancer_ip = value.into(),
                "families" => service.spec.ip_families = value.split(',').map(Into::into).collect(),
                "has" => {
                    let point = |ip: &str| super::super::views::Point { ip: ip.to_owned() };
                    service.status.load_balancer.ingress = value.split(',').map(point).collect();
                }
                "served" => service.metadata.finalizers = [FINALIZER.into()].into_iter().collect(),
                "gone" => service.metadata.deleted_at = Some(api::Time::from_unix(1)),
                other => panic!("{other}"),
            }
        }
        service
    }

    fn check(ranges: &str, one: &str, others: &[&str], expected: &str) {
        let others: Vec<Arc<Service>> = others.iter().map(|text| Arc::new(service(text))).collect();
        let planned = plan_service(&service(one), &others, &mut pool(ranges));
        assert_eq!(format!("{planned:?}"), expected, "{one}");
    }

    const RANGE: &str = "192.0.2.0/30";

    #[test]
    fn a_load_balancer_is_protected_and_then_published() {
        check(RANGE, "a", &[], "Protect");
        check(RANGE, "a served", &[], "Publish([192.0.2.1])");
        check(RANGE, "a served has=192.0.2.1", &[], "Nothing");
        check(RANGE, "a class=steersman.dev/simulated", &[], "Protect");
    }

    #[test]
    fn other_types_and_other_classes_are_left_alone() {
        check(RANGE, "a type=ClusterIP", &[], "Nothing");
        check(RANGE, "a class=example.com/other", &[], "Nothing");
        check(RANGE, "a gone", &[], "Nothing");
    }

    #[test]
    fn what_was_given_is_taken_back() {
        check(
            RANGE,
            "a type=ClusterIP served has=192.0.2.1",
            &[],
            "Withdraw",
        );
        check(RANGE, "a served gone has=192.0.2.1", &[], "Withdraw");
        check(RANGE, "a served gone", &[], "Unprotect");
    }

    #[test]
    fn no_address_is_given_twice() {
        check(
            RANGE,
            "a served",
            &["b served has=192.0.2.1"],
            "Publish([192.0.2.2])",
        );
        // The last one is that of the Ingresses.
        let full = ["b has=192.0.2.1", "c has=192.0.2.2"];
        check(
            RANGE,
            "a served",
            &full,
            "Refuse(Exhausted(\"192.0.2.0/30\"))",
        );
        let asks = "a served asks=192.0.2.1";
        check(RANGE, asks, &["b"], "Publish([192.0.2.1])");
        let taken = "Refuse(Taken(\"192.0.2.1\", b))";
        check(RANGE, asks, &["b has=192.0.2.1"], taken);
        let outside = "Refuse(OutOfRange(\"10.0.0.1\", \"192.0.2.0/30\"))";
        check(RANGE, "a served asks=10.0.0.1", &[], outside);
    }

    #[test]
    fn an_address_that_no_cache_shows_yet_is_not_given_again() {
        let mut pool = pool(RANGE);
        let first = plan_service(&service("a served"), &[], &mut pool);
        assert_eq!(format!("{first:?}"), "Publish([192.0.2.1])");
        let second = plan_service(&service("b served"), &[], &mut pool);
        assert_eq!(format!("{second:?}"), "Publish([192.0.2.2])");
        pool.release(&service("a").key());
        let third = plan_service(&service("c served"), &[], &mut pool);
        assert_eq!(format!("{third:?}"), "Publish([192.0.2.1])");
    }

    #[test]
    fn each_family_has_its_address() {
        let both = "192.0.2.0/24,2001:db8::/120";
        let dual = "a served families=IPv6,IPv4";
        check(both, dual, &[], "Publish([192.0.2.1, 2001:db8::1])");
        check(
            RANGE,
            "a served families=IPv6",
            &[],
            "Refuse(NoFamily(\"IPv6\"))",
        );
    }

    #[test]
    fn bad_ranges_are_refused() {
        let problem = |text: &str| Ranges::parse(text).unwrap_err().to_string();
        assert_eq!(
            problem("192.0.2.1"),
            "\"192.0.2.1\" is not a range of addresses such as 192.0.2.0/24"
        );
        for range in ["10.1.0.0/31", "10.1.0.0/32", "10.0.0.0/8,fd00::/127"] {
            assert!(problem(range).contains("has no address for a Service"));
        }
        assert!(Ranges::parse("10.1.0.0/30").is_ok());
        assert!(problem("10.0.0.0/8,11.0.0.0/8").contains("same family"));
        assert!(problem("10.0.0.0/8,::/64,::/96").contains("one IPv4 and one IPv6"));
    }
}

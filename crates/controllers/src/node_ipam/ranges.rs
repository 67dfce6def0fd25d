//! Which networks are divided, and into parts of which size: what flags say.

use api::Cidr;

use super::cidr_set::{CidrSet, CidrSetError};
use crate::config::{KubeCloudShared, NodeIpam};

/// What a node gets where flags say nothing. Upstream's numbers.
const DEFAULT_PREFIX_V4: i32 = 24;
const DEFAULT_PREFIX_V6: i32 = 64;

/// The networks of the cluster, without what Services have of them.
#[derive(Clone, Debug)]
pub struct Ranges(pub Vec<CidrSet>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangesError {
    #[error("Controller: Must specify --cluster-cidr if --allocate-node-cidrs is set")]
    NoClusterCidr,
    #[error("invalid CIDR address: {0}")]
    NotCidr(String),
    #[error("--cluster-cidr names more than one range of a family, or more than two ranges")]
    NotDualStack,
    #[error("usage of --node-cidr-mask-size is not allowed with dual-stack clusters")]
    OneMaskForBoth,
    #[error(
        "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if --node-cidr-mask-size is set. For dual-stack clusters please unset it and use IPFamily specific flags"
    )]
    BothMasks,
    #[error("usage of --node-cidr-mask-size-ipv4 is not allowed for a single-stack IPv6 cluster")]
    Ipv4Mask,
    #[error("usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster")]
    Ipv6Mask,
    #[error("serviceCIDR and secondaryServiceCIDR are not dualstack (from different IPfamiles)")]
    ServicesNotDualStack,
    #[error(transparent)]
    Set(#[from] CidrSetError),
}

impl Ranges {
    /// None without --allocate-node-cidrs.
    pub fn read(
        shared: &KubeCloudShared,
        config: &NodeIpam,
    ) -> Result<Option<Ranges>, RangesError> {
        match shared.allocate_node_cidrs {
            true => Ranges::of(&shared.cluster_cidr, config).map(Some),
            false => Ok(None),
        }
    }

    /// `cluster` is one network, or one of each family with a comma between them.
    pub fn of(cluster: &str, config: &NodeIpam) -> Result<Ranges, RangesError> {
        let clusters = parse_all(cluster)?;
        let sizes = sizes(config, &clusters)?;
        let mut sets = Vec::new();
        for (cluster, size) in clusters.iter().zip(sizes) {
            let size = u8::try_from(size).map_err(|_| CidrSetError::TooSmall)?;
            sets.push(CidrSet::new(*cluster, size)?);
        }
        // UPSTREAM: a range of Services that cannot be read is none.
        let services = [&config.service_cidr, &config.secondary_service_cidr];
        let services = services.into_iter();
        let services: Vec<Cidr> = services
            .filter_map(|text| Cidr::parse(text.trim()))
            .collect();
        if let [one, two] = services[..]
            && one.is_ipv4() == two.is_ipv4()
        {
            return Err(RangesError::ServicesNotDualStack);
        }
        for service in services {
            for set in sets
                .iter_mut()
                .filter(|set| set.cluster().overlaps(&service))
            {
                set.occupy(&service)?;
            }
        }
        Ok(Ranges(sets))
    }
}

fn parse_all(text: &str) -> Result<Vec<Cidr>, RangesError> {
    let texts = text
        .split(',')
        .map(str::trim)
        .filter(|text| !text.is_empty());
    let parse = |text: &str| Cidr::parse(text).ok_or_else(|| RangesError::NotCidr(text.to_owned()));
    let clusters = texts.map(parse).collect::<Result<Vec<Cidr>, _>>()?;
    match clusters.as_slice() {
        [] => Err(RangesError::NoClusterCidr),
        [_] => Ok(clusters),
        [one, two] if one.is_ipv4() != two.is_ipv4() => Ok(clusters),
        _ => Err(RangesError::NotDualStack),
    }
}

fn sizes(config: &NodeIpam, clusters: &[Cidr]) -> Result<Vec<i32>, RangesError> {
    let (any, v4, v6) = (
        config.node_cidr_mask_size,
        config.node_cidr_mask_size_ipv4,
        config.node_cidr_mask_size_ipv6,
    );
    let is_dual = clusters.len() > 1;
    let is_v4 = clusters.first().is_some_and(Cidr::is_ipv4);
    if is_dual && any != 0 {
        return Err(RangesError::OneMaskForBoth);
    }
    if any != 0 && (v4 != 0 || v6 != 0) {
        return Err(RangesError::BothMasks);
    }
    if !is_dual && !is_v4 && v4 != 0 {
        return Err(RangesError::Ipv4Mask);
    }
    if !is_dual && is_v4 && v6 != 0 {
        return Err(RangesError::Ipv6Mask);
    }
    let or = |given: i32, default: i32| if given != 0 { given } else { default };
    let size = |cluster: &Cidr| match (any, cluster.is_ipv4()) {
        (0, true) => or(v4, DEFAULT_PREFIX_V4),
        (0, false) => or(v6, DEFAULT_PREFIX_V6),
        (any, _) => any,
    };
    Ok(clusters.iter().map(size).collect())
}

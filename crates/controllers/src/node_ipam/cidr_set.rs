//! A network that is given out in equal parts. Pure: who calls keeps the measures.

use api::Cidr;

/// UPSTREAM: a range of IPv6 may be divided into 2^16 parts and no more.
const PARTS_BITS_MAX_V6: u8 = 16;

/// Bits of one word of the map.
const WORD: u64 = 64;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CidrSetError {
    #[error(
        "CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range"
    )]
    NoneRemaining,
    #[error("New CIDR set failed; the node CIDR size is too big")]
    TooBig,
    #[error(
        "Controller: Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal to --node-cidr-mask-size configured for CIDR family"
    )]
    TooSmall,
    #[error("cidr {cidr} is out the range of cluster cidr {cluster}")]
    OutOfRange { cidr: Cidr, cluster: Cidr },
}

/// Which parts of a network are taken.
#[derive(Clone, Debug)]
pub struct CidrSet {
    cluster: Cidr,
    part_prefix: u8,
    /// One bit for each part, as far as any is taken.
    used: Vec<u64>,
    taken: u64,
    next: u64,
}

/// A part that was taken, and how many were looked at in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    pub cidr: Cidr,
    pub tries: u64,
}

impl CidrSet {
    /// Divides a network into parts with this prefix.
    pub fn new(cluster: Cidr, part_prefix: u8) -> Result<CidrSet, CidrSetError> {
        let width = cluster.prefix() + cluster.host_bits();
        if part_prefix < cluster.prefix() || part_prefix > width {
            return Err(CidrSetError::TooSmall);
        }
        if !cluster.is_ipv4() && part_prefix - cluster.prefix() > PARTS_BITS_MAX_V6 {
            return Err(CidrSetError::TooBig);
        }
        Ok(CidrSet {
            cluster: cluster.masked(),
            part_prefix,
            used: Vec::new(),
            taken: 0,
            next: 0,
        })
    }

    pub fn cluster(&self) -> &Cidr {
        &self.cluster
    }

    /// How many parts there are.
    pub fn max(&self) -> u64 {
        1 << (self.part_prefix - self.cluster.prefix())
    }

    /// How many of them are taken, as a share of all.
    pub fn usage(&self) -> f64 {
        self.taken as f64 / self.max() as f64
    }

    /// Takes the next part that is free. What was just released comes last, so that nobody gets it at once.
    pub fn allocate_next(&mut self) -> Result<Allocation, CidrSetError> {
        let max = self.max();
        if self.taken == max {
            return Err(CidrSetError::NoneRemaining);
        }
        let candidates = (0..max).map(|step| (step, (self.next + step) % max));
        let mut candidates = candidates.skip_while(|(_, index)| self.is_used(*index));
        let Some((tries, index)) = candidates.next() else {
            return Err(CidrSetError::NoneRemaining);
        };
        self.next = (index + 1) % max;
        self.mark(index, index, true);
        Ok(Allocation {
            cidr: self.part(index),
            tries,
        })
    }

    /// Marks as taken what lies in a network; gives how many parts were free.
    pub fn occupy(&mut self, cidr: &Cidr) -> Result<u64, CidrSetError> {
        let (begin, end) = self.parts_of(cidr)?;
        Ok(self.mark(begin, end, true))
    }

    /// Frees what lies in a network; gives how many parts were taken.
    pub fn release(&mut self, cidr: &Cidr) -> Result<u64, CidrSetError> {
        let (begin, end) = self.parts_of(cidr)?;
        Ok(self.mark(begin, end, false))
    }

    fn part(&self, index: u64) -> Cidr {
        let width = self.cluster.prefix() + self.cluster.host_bits();
        let part = self.cluster.part(index.into(), width - self.part_prefix);
        part.unwrap_or(self.cluster)
    }

    /// The first and the last part that a network touches.
    fn parts_of(&self, cidr: &Cidr) -> Result<(u64, u64), CidrSetError> {
        if !self.cluster.overlaps(cidr) {
            return Err(CidrSetError::OutOfRange {
                cidr: *cidr,
                cluster: self.cluster,
            });
        }
        if cidr.prefix() <= self.cluster.prefix() {
            return Ok((0, self.max() - 1));
        }
        let width = self.cluster.prefix() + self.cluster.host_bits();
        let shift = width - self.part_prefix;
        let first = self.cluster.index_of(&cidr.nth(0)).unwrap_or(0);
        let last = first + (cidr.size() - 1);
        let part = |offset: u128| {
            let part = offset.checked_shr(shift.into()).unwrap_or(0);
            u64::try_from(part).unwrap_or(u64::MAX).min(self.max() - 1)
        };
        Ok((part(first), part(last)))
    }

    fn is_used(&self, index: u64) -> bool {
        let word = usize::try_from(index / WORD).ok();
        let word = word.and_then(|word| self.used.get(word));
        word.is_some_and(|word| word & (1 << (index % WORD)) != 0)
    }

    /// Sets or clears a run of bits, word by word; gives how many changed.
    fn mark(&mut self, begin: u64, end: u64, used: bool) -> u64 {
        let mut changed = 0;
        for word in begin / WORD..=end / WORD {
            let low = begin.max(word * WORD) % WORD;
            let high = end.min(word * WORD + WORD - 1) % WORD;
            let mask = (u64::MAX >> (WORD - 1 - high)) & (u64::MAX << low);
            let Ok(place) = usize::try_from(word) else {
                break;
            };
            if place >= self.used.len() {
                if !used {
                    break;
                }
                self.used.resize(place + 1, 0);
            }
            let before = self.used[place];
            let after = if used { before | mask } else { before & !mask };
            self.used[place] = after;
            changed += u64::from((before ^ after).count_ones());
        }
        match used {
            true => self.taken += changed,
            false => self.taken -= changed,
        }
        changed
    }
}

//! From when and until when certificates are good.

use api::Time;
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Year, month, day.
pub(super) type Date = (i32, u8, u8);

const DAY: i64 = 86_400;

/// As kubeadm has it.
const LEAF_DAYS: i64 = 365;
const AUTHORITY_DAYS: i64 = 3650;

/// The last second that a certificate can name.
const LAST: i64 = 253_402_300_799;

/// By which clocks certificates are made.
#[derive(Clone, Copy, Debug)]
pub struct Validity {
    from: i64,
    now: i64,
    pace: i64,
}

impl Validity {
    /// Clients judge the server by the clock of the machine, and the server judges clients by the cluster's, which may be
    /// ahead and pass up to `pace` times as fast: certificates are good by both.
    pub fn new(machine: Time, cluster: Time, pace: u32) -> Validity {
        let (machine, cluster) = (machine.unix(), cluster.unix());
        Validity {
            // Since yesterday, for clients whose clock is behind.
            from: machine.min(cluster) - DAY,
            now: machine.max(cluster),
            pace: i64::from(pace.max(1)),
        }
    }

    /// Good by any clock that a test chooses: from 2020 to 2060.
    pub fn for_tests() -> Validity {
        let (early, late) = (
            Time::from_unix(1_577_836_800),
            Time::from_unix(2_840_140_800),
        );
        Validity::new(early, late, 1)
    }

    pub(super) fn of_leaf(self) -> (Date, Date) {
        self.lasting(LEAF_DAYS)
    }

    pub(super) fn of_authority(self) -> (Date, Date) {
        self.lasting(AUTHORITY_DAYS)
    }

    /// Whether less than a third of the time is left that such a certificate is given. What cannot be read is as good as
    /// over.
    pub(super) fn leaf_ends_soon(self, certificate: &CertificateDer<'_>) -> bool {
        self.ends_soon(certificate, LEAF_DAYS)
    }

    pub(super) fn authority_ends_soon(self, certificate: &CertificateDer<'_>) -> bool {
        self.ends_soon(certificate, AUTHORITY_DAYS)
    }

    fn ends_soon(self, certificate: &CertificateDer<'_>, days: i64) -> bool {
        let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
            return true;
        };
        let until = certificate.validity().not_after.timestamp();
        let given = self.until(days) - self.now;
        until - self.now < given / 3
    }

    fn lasting(self, days: i64) -> (Date, Date) {
        (date(self.from), date(self.until(days)))
    }

    fn until(self, days: i64) -> i64 {
        let seconds = days.saturating_mul(DAY).saturating_mul(self.pace);
        self.now.saturating_add(seconds).min(LAST)
    }
}

fn date(seconds: i64) -> Date {
    // RFC 3339 is the one form of times that we have; a date that it cannot say is the last one.
    let text = Time::from_unix(seconds).to_string();
    let mut parts = text.split(['-', 'T']);
    let mut number = || parts.next().and_then(|part| part.parse::<i32>().ok());
    let (year, month, day) = (number(), number(), number());
    let small = |number: Option<i32>| number.and_then(|number| u8::try_from(number).ok());
    match (year, small(month), small(day)) {
        (Some(year), Some(month), Some(day)) => (year, month, day),
        _ => (9999, 12, 31),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_find_a_certificate_good_for_a_year_of_the_faster_one() {
        let (machine, cluster) = (
            Time::from_unix(1_700_000_000),
            Time::from_unix(1_800_000_000),
        );
        let (from, until) = Validity::new(machine, cluster, 1).of_leaf();
        assert_eq!((from, until), ((2023, 11, 13), (2028, 1, 15)));
        let (_, until) = Validity::new(machine, cluster, 1000).of_leaf();
        assert_eq!(until.0, 3026);
        let (_, until) = Validity::new(machine, cluster, 1000).of_authority();
        assert_eq!(until, (9999, 12, 31));
    }
}

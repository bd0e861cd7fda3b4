//! The little of a certificate that we read: its other names, and when it ends. Whether it is genuine, rustls has looked.

use registry::Timestamp;

/// What we read of a certificate.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Certificate {
    pub(super) uris: Vec<String>,
    pub(super) emails: Vec<String>,
    pub(super) hosts: Vec<String>,
    pub(super) until: Option<Timestamp>,
}

const SEQUENCE: u8 = 0x30;
const OBJECT_ID: u8 = 0x06;
const BOOLEAN: u8 = 0x01;
const OCTETS: u8 = 0x04;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const EMAIL: u8 = 0x81;
const HOST: u8 = 0x82;
const URI: u8 = 0x86;
/// 2.5.29.17
const OTHER_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

/// One value and what follows it.
struct Value<'a> {
    tag: u8,
    body: &'a [u8],
    rest: &'a [u8],
}

/// The first value of some DER. None: it is none, or longer than a certificate may be.
fn value(der: &[u8]) -> Option<Value<'_>> {
    let (&[tag, short], rest) = der.split_first_chunk::<2>()?;
    let (length, rest) = match short {
        0..=0x7f => (usize::from(short), rest),
        // 0x80 has no length; DER has none of these.
        0x81..=0x83 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(short - 0x80))?;
            let length = bytes
                .iter()
                .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            (length, rest)
        }
        _ => return None,
    };
    let (body, rest) = rest.split_at_checked(length)?;
    Some(Value { tag, body, rest })
}

/// The values of a sequence, as far as they can be read.
fn values(mut der: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let next = value(der)?;
        der = next.rest;
        Some((next.tag, next.body))
    })
}

fn within(der: &[u8], tag: u8) -> Option<&[u8]> {
    value(der)
        .filter(|value| value.tag == tag)
        .map(|value| value.body)
}

impl Certificate {
    /// None: it is no certificate.
    pub(super) fn read(der: &[u8]) -> Option<Self> {
        let signed = within(within(der, SEQUENCE)?, SEQUENCE)?;
        let mut parts = values(signed).filter(|(tag, _)| *tag != VERSION);
        // Serial number, algorithm, issuer; then how long it holds.
        let (_, holds) = parts.nth(3)?;
        let mut read = Self {
            until: values(holds)
                .nth(1)
                .and_then(|(tag, text)| moment(tag, text)),
            ..Self::default()
        };
        let extensions = parts.find(|(tag, _)| *tag == EXTENSIONS);
        let extensions = extensions.and_then(|(_, body)| within(body, SEQUENCE));
        for (_, extension) in values(extensions.unwrap_or_default()) {
            let mut parts = values(extension).filter(|(tag, _)| *tag != BOOLEAN);
            if parts.next() != Some((OBJECT_ID, OTHER_NAMES)) {
                continue;
            }
            let (_, names) = parts.find(|(tag, _)| *tag == OCTETS)?;
            for (tag, name) in values(within(names, SEQUENCE)?) {
                let Ok(name) = str::from_utf8(name) else {
                    continue;
                };
                match tag {
                    URI => read.uris.push(name.to_owned()),
                    EMAIL => read.emails.push(name.to_owned()),
                    HOST => read.hosts.push(name.to_owned()),
                    _ => {}
                }
            }
        }
        Some(read)
    }
}

/// `YYMMDDhhmmssZ`, or with four digits of the year.
fn moment(tag: u8, text: &[u8]) -> Option<Timestamp> {
    let text = str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let text = match tag {
        UTC_TIME if text.get(..2)? < "50" => format!("20{text}"),
        UTC_TIME => format!("19{text}"),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let part = |from: usize, to: usize| text.get(from..to);
    let moment = format!(
        "{}-{}-{}T{}:{}:{}Z",
        part(0, 4)?,
        part(4, 6)?,
        part(6, 8)?,
        part(8, 10)?,
        part(10, 12)?,
        part(12, 14)?
    );
    let moment: jiff::Timestamp = moment.parse().ok()?;
    Some(Timestamp::from_ms(moment.as_millisecond()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_moment_is_read_in_both_spellings() {
        let rows: [(u8, &str, Option<&str>); 6] = [
            (UTC_TIME, "270331235959Z", Some("2027-03-31T23:59:59Z")),
            (UTC_TIME, "491231000000Z", Some("2049-12-31T00:00:00Z")),
            (
                GENERALIZED_TIME,
                "20750101000000Z",
                Some("2075-01-01T00:00:00Z"),
            ),
            (UTC_TIME, "270331235959", None),
            (UTC_TIME, "2703Z", None),
            (OCTETS, "270331235959Z", None),
        ];
        for (tag, text, read) in rows {
            let moment = moment(tag, text.as_bytes()).map(|at| at.to_string());
            assert_eq!(moment.as_deref(), read, "{text}");
        }
    }

    /// Cut anywhere, or with any byte changed, it is read or not, and nothing breaks.
    #[test]
    fn what_is_no_certificate_is_none() {
        let key = rcgen::KeyPair::generate().unwrap();
        let made = rcgen::CertificateParams::new(vec!["a.example".into()]).unwrap();
        let der = made.self_signed(&key).unwrap().der().to_vec();
        let whole = Certificate::read(&der).unwrap();
        assert_eq!(whole.hosts, ["a.example"]);
        assert!(whole.until.is_some());
        for cut in 0..der.len() {
            assert_eq!(Certificate::read(&der[..cut]), None, "{cut}");
            for bits in [1, 0x80, 0xff] {
                let mut bent = der.clone();
                bent[cut] ^= bits;
                let _ = Certificate::read(&bent);
            }
        }
    }
}

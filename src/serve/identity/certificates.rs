//! Client certificates: rustls has checked who signed them; here is whom they name.

use std::collections::HashMap;

use registry::{Principal, Refusal};

use super::{Known, der::Certificate, unknown};
use crate::serve::config::Certified;

/// Who comes in by which name of a certificate.
#[derive(Debug, Default)]
pub(super) struct Certificates(HashMap<String, Principal>);

impl Certificates {
    pub(super) fn of(rows: &[Certified]) -> Self {
        let principal = |row: &Certified| {
            Principal::new(
                row.name.clone(),
                row.tenant.clone(),
                row.roles.iter().copied(),
            )
            .with_scopes(row.scopes.iter().copied())
        };
        let rows = rows.iter();
        Self(rows.map(|row| (row.san.clone(), principal(row))).collect())
    }

    pub(super) fn principals(&self) -> impl Iterator<Item = &Principal> {
        self.0.values()
    }

    /// By its URIs where it has any, else by its e-mail addresses, else by its host names; never by its common name, which
    /// nobody checks.
    pub(super) fn holder(&self, der: &[u8]) -> Result<Known, Refusal> {
        let read = Certificate::read(der).ok_or_else(|| unknown("an unreadable certificate"))?;
        let kinds = [read.uris, read.emails, read.hosts];
        let names = kinds.into_iter().find(|names| !names.is_empty());
        let names = names.ok_or_else(|| {
            unknown("the certificate has no subject alternative name; its common name counts for nothing")
        })?;
        let mut fit = names.iter().filter_map(|name| self.0.get_key_value(name));
        match (fit.next(), fit.next()) {
            (Some((name, principal)), None) => Ok(Known {
                principal: principal.clone(),
                by: format!("the certificate of {name}"),
                expires: read.until,
                token: None,
            }),
            (Some(_), Some(_)) => Err(unknown(
                "the certificate has names of two principals, so it is nobody's",
            )),
            (None, _) => Err(unknown(
                "the certificate is genuine, and its name stands in no [[tls.principal]]",
            )),
        }
    }
}

//! The socket: the kernel says which uid calls, the system which user and groups that is, the config what these may do.

use std::ffi::CString;

use nix::unistd::{Gid, Group, Uid, User, geteuid, getgrouplist};
use registry::{Name, Principal, Refusal, Role, Tenant};

use super::{Known, Surface, unknown};
use crate::serve::config::{Local, Socket};

/// Who comes in by the socket besides the server's own uid and root.
#[derive(Debug, Default)]
pub(super) struct People {
    users: Vec<Local>,
    groups: Vec<Local>,
}

impl People {
    /// Names are looked up at each call: a user may be made, or leave a group, while we run. One that is not there now is
    /// said, since it may be misspelt.
    pub(super) fn of(socket: &Socket) -> Self {
        for row in &socket.user {
            if !matches!(User::from_name(&row.name), Ok(Some(_))) {
                tracing::warn!("[[socket.user]]: this machine knows no user '{}'", row.name);
            }
        }
        for row in &socket.group {
            if !matches!(Group::from_name(&row.name), Ok(Some(_))) {
                tracing::warn!(
                    "[[socket.group]]: this machine knows no group '{}'",
                    row.name
                );
            }
        }
        Self {
            users: socket.user.clone(),
            groups: socket.group.clone(),
        }
    }

    pub(super) fn holder(&self, uid: Uid, surface: Surface) -> Result<Known, Refusal> {
        let user = User::from_uid(uid).ok().flatten();
        if uid == geteuid() || uid.is_root() {
            let roles: &[Role] = match surface {
                Surface::Agent => &[Role::Agent],
                Surface::Operator => &[Role::Operator, Role::Admin],
            };
            let login = user.map_or_else(|| uid.to_string(), |user| user.name);
            let name = Name::parse(&format!("user:{login}"))?;
            let principal = Principal::new(name, Tenant::local(), roles.iter().copied());
            return Ok(known(principal, format!("uid {uid} on the socket")));
        }
        let mapped = user.as_ref().and_then(|user| self.row(user));
        let (Some(user), Some((row, group))) = (user, mapped) else {
            return Err(unknown(
                "this server runs as another user, and its config maps neither you nor a group of yours",
            ));
        };
        // An agent and a person do not share a name.
        let kind = match row.roles.contains(&Role::Agent) {
            true => "agent",
            false => "user",
        };
        let name = Name::parse(&format!("{kind}:{}", user.name))?;
        let principal = Principal::new(name, row.tenant.clone(), row.roles.iter().copied());
        let by = match group {
            true => format!("uid {uid} on the socket, in the group {}", row.name),
            false => format!("uid {uid} on the socket"),
        };
        Ok(known(principal.with_scopes(row.scopes.iter().copied()), by))
    }

    /// The row that says what a user may do, and whether it is that of a group.
    fn row(&self, user: &User) -> Option<(&Local, bool)> {
        if let Some(row) = self.users.iter().find(|row| row.name == user.name) {
            return Some((row, false));
        }
        if self.groups.is_empty() {
            return None;
        }
        let name = CString::new(user.name.as_bytes()).ok()?;
        let theirs: Vec<Gid> = getgrouplist(&name, user.gid).ok()?;
        let in_it = |row: &&Local| {
            let group = Group::from_name(&row.name).ok().flatten();
            group.is_some_and(|group| theirs.contains(&group.gid))
        };
        self.groups.iter().find(in_it).map(|row| (row, true))
    }
}

fn known(principal: Principal, by: String) -> Known {
    Known {
        principal,
        by,
        expires: None,
        token: None,
    }
}

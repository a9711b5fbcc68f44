use std::collections::BTreeMap;

/// Names of users and groups with their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    pub users: BTreeMap<String, u32>,
    pub groups: BTreeMap<String, u32>,
}

impl Accounts {
    /// From the text of `/etc/passwd` and `/etc/group`; lines that make no sense are left out.
    #[must_use]
    pub fn from_files(passwd: &str, group: &str) -> Self {
        // Both have the name first and the number third.
        let entry = |line: &str| {
            let mut fields = line.split(':');
            let name = fields.next().filter(|name| !name.is_empty())?;
            Some((name.to_owned(), fields.nth(1)?.parse().ok()?))
        };
        Self {
            users: passwd.lines().filter_map(entry).collect(),
            groups: group.lines().filter_map(entry).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read_from_the_systems_files_and_nonsense_is_left_out() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\ncamera:x:990:990::/:/bin/false\n\n:x:7:7\nx\n";
        let group = "video:x:44:camera,root\nbad:x:minus\n";
        let accounts = Accounts::from_files(passwd, group);
        assert_eq!(accounts.users.len(), 2);
        assert_eq!(accounts.users["camera"], 990);
        assert_eq!(accounts.groups.len(), 1);
        assert_eq!(accounts.groups["video"], 44);
    }
}

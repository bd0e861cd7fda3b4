//! A sweep, slice by slice. Each slice is one transaction: the floor, the place and the counts are written with what they say,
//! so that whoever comes after a crash goes on where it was.

use rusqlite::{Transaction, TransactionBehavior, params};

use super::{AT, File, count, number};
use crate::{
    event::{Event, Seq},
    log::{
        LogError,
        trim::{Sweep, Swept, Tally, done, of},
    },
    time::Timestamp,
    who::Tenant,
};

const SLICE: &str = "SELECT seq, at, tenant, run, subject, kind, body <> '' FROM ev
    WHERE seq > ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3";

pub(super) const RUN_OF: &str = "SELECT run FROM ev WHERE subject = ?1 AND kind IN (1, 3)";

pub(super) const RUN_ENDED: &str = "SELECT seq FROM ev
    WHERE run = ?1 AND kind BETWEEN 40 AND 49 AND seq < ?2 AND kind = 42";

/// Of a run, a question or an escalation that was not over at a moment.
pub(super) const OPEN_ASKED: &str = "SELECT 1 FROM ev AS asked
    WHERE run = ?1 AND kind = 1 AND NOT EXISTS (SELECT 1 FROM ev
        WHERE subject = asked.subject AND kind BETWEEN 10 AND 19 AND seq <= ?2)";
pub(super) const OPEN_HELD: &str = "SELECT 1 FROM ev AS held
    WHERE run = ?1 AND kind IN (3, 50, 51) AND kind = 3 AND NOT EXISTS (SELECT 1 FROM ev
        WHERE subject = held.subject AND kind BETWEEN 10 AND 19 AND seq <= ?2)";

const EMPTY_ONE: &str = "UPDATE ev SET body = '' WHERE seq = ?1";

/// What a run said, planned and did; orders that answer an escalation stay.
const EMPTY_RECORD: &str = "UPDATE ev SET body = '' WHERE seq IN (SELECT seq FROM ev
    WHERE run = ?1 AND kind BETWEEN 40 AND 49 AND seq <= ?2 AND body <> ''
        AND (subject IS NULL OR kind NOT IN (47, 48)) LIMIT ?3) RETURNING seq, at";
const EMPTY_REST: &str = "UPDATE ev SET body = '' WHERE seq IN (SELECT seq FROM ev
    WHERE run = ?1 AND kind IN (3, 50, 51) AND seq <= ?2 AND body <> '' AND kind <> 3
    LIMIT ?3) RETURNING seq, at";
const EMPTY_CHATTER: &str = "UPDATE ev SET body = '' WHERE seq IN (SELECT about.seq
    FROM ev AS asked JOIN ev AS about ON about.subject = asked.subject
    WHERE asked.run = ?1 AND asked.kind = 1 AND about.kind IN (20, 22, 23, 29)
        AND about.seq <= ?2 AND about.body <> '' LIMIT ?3) RETURNING seq, at";

/// What stands beside the body of an event.
struct Row {
    seq: Seq,
    at: Timestamp,
    tenant: String,
    run: Option<String>,
    subject: Option<String>,
    kind: u8,
    has_body: bool,
}

/// One slice.
struct Slice<'a> {
    file: &'a File,
    /// The last event that the sweep may look at.
    cut: Seq,
    /// Events that may still be emptied.
    room: usize,
    floor: Seq,
    tally: Tally,
}

impl File {
    pub(super) fn trim(&self, sweep: &Sweep) -> Result<Swept, LogError> {
        let tx = Transaction::new_unchecked(&self.db, TransactionBehavior::Immediate);
        let tx = tx.map_err(|error| self.said(error))?;
        let head = self.tip()?.map_or(0, |tip| tip.seq);
        let at = |seq| self.one(AT, [number(seq)], |row| Ok(Timestamp::from_ms(row.get(0)?)));
        let (cut, mut swept) = (sweep.cut(head, at)?, self.meta_number("swept_seq")?);
        let (floor, tally) = (self.meta_number("floor_seq")?, self.tally()?);
        if swept >= cut {
            return Ok(done(tally, floor));
        }
        if let Some(jump) = sweep.is_held((swept, cut, head), at)? {
            return Ok(Swept::Held(jump));
        }
        let values = params![number(swept), number(cut), count(sweep.rows)];
        let rows = self.all(SLICE, values, |row| {
            Ok(Row {
                seq: i64::cast_unsigned(row.get(0)?),
                at: Timestamp::from_ms(row.get(1)?),
                tenant: row.get(2)?,
                run: row.get(3)?,
                subject: row.get(4)?,
                kind: row.get(5)?,
                has_body: row.get(6)?,
            })
        })?;
        let mut slice = Slice {
            file: self,
            cut,
            room: sweep.rows,
            floor,
            tally,
        };
        for row in rows {
            if !slice.take(&row)? {
                break;
            }
            swept = row.seq;
        }
        let Slice { floor, tally, .. } = slice;
        let tally = serde_json::to_string(&tally).map_err(super::broken_assertion)?;
        let put = "INSERT OR REPLACE INTO meta VALUES (?1, ?2)";
        self.run(put, params!["floor_seq", number(floor)])?;
        self.run(put, params!["swept_seq", number(swept)])?;
        self.run(put, params!["sweep", tally])?;
        tx.commit().map_err(|error| self.said(error))?;
        self.keep_wal_short()?;
        Ok(Swept::More)
    }

    pub(super) fn meta_number(&self, key: &str) -> Result<Seq, LogError> {
        let found = self.one("SELECT v FROM meta WHERE k = ?1", [key], |row| {
            Ok(i64::cast_unsigned(row.get(0)?))
        });
        Ok(found?.unwrap_or_default())
    }

    /// What a sweep took that nobody has recorded yet.
    fn tally(&self) -> Result<Tally, LogError> {
        let text: Option<String> =
            self.one("SELECT v FROM meta WHERE k = 'sweep'", [], |row| row.get(0))?;
        let read = text.map(|text| serde_json::from_str(&text));
        let read = read.transpose();
        Ok(read
            .map_err(|error| self.foreign(&error.to_string()))?
            .unwrap_or_default())
    }

    /// In the transaction that records what was taken: nobody records it twice.
    pub(super) fn sweep_is_recorded(&self) -> Result<(), LogError> {
        self.run("DELETE FROM meta WHERE k = 'sweep'", [])
    }
}

impl Slice<'_> {
    /// Takes what is to be taken because of one event; says whether it is done with it.
    fn take(&mut self, row: &Row) -> Result<bool, LogError> {
        let tenant =
            Tenant::parse(&row.tenant).map_err(|error| self.file.foreign(&error.to_string()))?;
        if row.kind == Event::RUN_ENDED
            && let Some(run) = &row.run
        {
            return self.take_run(run, row.seq, &tenant);
        }
        if Event::TERMINAL.contains(&row.kind)
            && let Some(subject) = &row.subject
        {
            self.take_detail(subject, row.at, &tenant)?;
            return match self.ended_run(row)? {
                Some(run) => self.take_run(&run, row.seq, &tenant),
                None => Ok(true),
            };
        }
        let goes = row.has_body && Event::is_trimmed(row.kind, row.subject.is_some());
        if goes
            && let Some(run) = self.ended_run(row)?
            && !self.is_open(&run)?
        {
            self.file.run(EMPTY_ONE, [number(row.seq)])?;
            self.emptied(row.seq, row.at, &tenant);
        }
        Ok(true)
    }

    /// The run of an event, if it had ended by then.
    fn ended_run(&self, row: &Row) -> Result<Option<String>, LogError> {
        let run = match (&row.run, &row.subject) {
            (Some(run), _) => Some(run.clone()),
            (None, Some(subject)) => {
                let run = self.file.one(RUN_OF, [subject], |row| row.get(0))?;
                run.flatten()
            }
            (None, None) => None,
        };
        let Some(run) = run else { return Ok(None) };
        let ended = self
            .file
            .one(RUN_ENDED, params![run, number(row.seq)], |_| Ok(()))?;
        Ok(ended.map(|()| run))
    }

    fn is_open(&self, run: &str) -> Result<bool, LogError> {
        for sql in [OPEN_ASKED, OPEN_HELD] {
            let open = self
                .file
                .one(sql, params![run, number(self.cut)], |_| Ok(()))?;
            if open.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What a run that has ended said and did up to `upto`; says whether that is all of it.
    fn take_run(&mut self, run: &str, upto: Seq, tenant: &Tenant) -> Result<bool, LogError> {
        if self.is_open(run)? {
            return Ok(true);
        }
        for sql in [EMPTY_RECORD, EMPTY_REST, EMPTY_CHATTER] {
            let values = params![run, number(upto), count(self.room)];
            let emptied = self.file.all(sql, values, |row| {
                let seq: i64 = row.get(0)?;
                Ok((i64::cast_unsigned(seq), Timestamp::from_ms(row.get(1)?)))
            })?;
            for (seq, at) in emptied {
                self.emptied(seq, at, tenant);
                self.room -= 1;
            }
            if self.room == 0 {
                return Ok(false);
            }
        }
        let frames = "DELETE FROM frame WHERE run = ?1 RETURNING n";
        let frames = self.file.all(frames, [run], |_| Ok(()))?.len();
        of(&mut self.tally, tenant).frames += frames as u64;
        Ok(true)
    }

    fn take_detail(
        &mut self,
        subject: &str,
        at: Timestamp,
        tenant: &Tenant,
    ) -> Result<(), LogError> {
        self.file
            .run("DELETE FROM sealed WHERE id = ?1", [subject])?;
        let detail = "DELETE FROM detail WHERE id = ?1 RETURNING 1";
        for () in self.file.all(detail, [subject], |_| Ok(()))? {
            let trimmed = of(&mut self.tally, tenant);
            trimmed.reaches(at);
            trimmed.details += 1;
        }
        Ok(())
    }

    fn emptied(&mut self, seq: Seq, at: Timestamp, tenant: &Tenant) {
        self.floor = self.floor.max(seq);
        let trimmed = of(&mut self.tally, tenant);
        trimmed.reaches(at);
        trimmed.events += 1;
    }
}

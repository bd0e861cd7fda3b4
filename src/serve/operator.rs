//! What people call. Every call acts as the person whose credential it carries.

use std::{pin::Pin, sync::Arc};

use registry::{
    Detail, EscalationId, ItemId, Principal, Refusal, Run, RunId, State, Untrusted, Wish,
    decide::Reply,
    log::{HistoryQuery, Reader},
    who::{Verb, may, sees},
};
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use super::{
    Server,
    identity::{Surface, Ticket},
    owner::{Held, Stands},
};
use crate::wire::{
    pb::pilothouse::v1::{
        ControlRequest, ControlResponse, DecideRequest, DecideResponse, DismissRequest,
        DismissResponse, ExtendRequest, ExtendResponse, GetRequest, GetResponse, GetRunRequest,
        GetRunResponse, HistoryRequest, HistoryResponse, ListRequest, ListResponse,
        MintTicketRequest, MintTicketResponse, WatchRequest, WatchResponse, WhoamiRequest,
        WhoamiResponse, operator_service_server::OperatorService,
    },
    pilothouse as wire,
    status::status,
};

/// Events of a run's record in one answer.
const RECORD_EVENTS: usize = 500;
/// Ended approvals read at once while looking for those that a caller may see.
const HISTORY_PAGE: usize = 500;
/// How often, for one call.
const HISTORY_LOOKS: usize = 8;

impl Server {
    fn person<T>(&self, request: &Request<T>) -> Result<Principal, Status> {
        Ok(self.caller(Surface::Operator, request)?.principal)
    }

    async fn get_whole(&self, by: &Principal, request: GetRequest) -> Result<GetResponse, Refusal> {
        let named = wire::get(request)?;
        if let Some(held) = self.held(by, named.escalation).await? {
            let run = self.owner.state().run(held.escalation().run).cloned();
            let asked = match held {
                Held::Open(escalation) => wire::Asked::Escalation(escalation),
                Held::Closed(closed) => wire::Asked::Closed(closed),
            };
            return Ok(wire::got(&asked, &Detail::default(), run.as_deref()));
        }
        let id = named.approval;
        let stands = self.owner.approval(by.tenant(), id).await?;
        may(by, Verb::See, stands.approval().owner.as_ref(), None)?;
        let detail = self.owner.detail(id).await?;
        let run = self.owner.state().run(stands.approval().run).cloned();
        let asked = match stands {
            Stands::Pending(pending) => wire::Asked::Pending(pending),
            Stands::Settled(settled) => wire::Asked::Settled(settled),
        };
        Ok(wire::got(&asked, &detail, run.as_deref()))
    }

    /// The escalation with this id, if there is one that `by` may know of.
    async fn held(&self, by: &Principal, id: EscalationId) -> Result<Option<Held>, Refusal> {
        let Some(held) = self.owner.escalation(by.tenant(), id).await? else {
            return Ok(None);
        };
        may(by, Verb::See, held.escalation().owner.as_ref(), None)?;
        Ok(Some(held))
    }

    async fn get_run_whole(
        &self,
        by: &Principal,
        request: GetRunRequest,
    ) -> Result<GetRunResponse, Refusal> {
        let (named, after) = wire::get_run(request)?;
        let known = find_run(&self.owner.state(), by, &named);
        let run = match known {
            Err(Refusal::NotFound(_)) => self.forgotten_run(by, &named).await?,
            known => known?,
        };
        let id = run.id;
        let read = move |log: &dyn Reader| log.record(id, after, RECORD_EVENTS + 1);
        let events = self.owner.read_log(read).await?;
        let (mut record, mut room, mut prev) = (Vec::new(), wire::Room::beside(&run), after);
        for recorded in events.iter().take(RECORD_EVENTS) {
            let item = wire::record_item(recorded, prev);
            if !room.takes(&item) {
                break;
            }
            prev = recorded.seq;
            record.push(item);
        }
        let has_more = record.len() < events.len();
        Ok(wire::got_run(&run, record, has_more))
    }

    /// A run that ended so long ago that State has let it go: folded from its record.
    async fn forgotten_run(&self, by: &Principal, named: &Untrusted) -> Result<Arc<Run>, Refusal> {
        let gone = || Refusal::NotFound("run");
        let id: RunId = named.raw().parse().map_err(|_| gone())?;
        let mut state = State::default();
        loop {
            let after = state.head();
            let read = move |log: &dyn Reader| log.record(id, after, RECORD_EVENTS);
            let events = self.owner.read_log(read).await?;
            events.iter().for_each(|recorded| state.fold(recorded));
            if events.len() < RECORD_EVENTS {
                break;
            }
        }
        let run = state.run(id).filter(|run| run.key.tenant == *by.tenant());
        let run = run.ok_or_else(gone)?;
        may(by, Verb::See, run.owner.as_ref(), None)?;
        Ok(run.clone())
    }

    async fn decide_one(
        &self,
        by: Principal,
        request: DecideRequest,
    ) -> Result<DecideResponse, Refusal> {
        let wish = wire::decide(request)?;
        let tenant = by.tenant().clone();
        let Reply::Approval(id) = self.judge(by, wish).await? else {
            return Err(Refusal::NotFound("approval"));
        };
        match self.owner.approval(&tenant, id).await? {
            Stands::Settled(settled) => Ok(wire::decided(&settled)),
            Stands::Pending(pending) => Ok(wire::voted(&pending)),
        }
    }

    async fn extend_one(
        &self,
        by: Principal,
        request: ExtendRequest,
    ) -> Result<ExtendResponse, Refusal> {
        let wish = wire::extend(request)?;
        let Wish::Extend { id, .. } = &wish else {
            return Err(Refusal::NotFound("approval"));
        };
        let (id, tenant) = (*id, by.tenant().clone());
        self.judge(by, wish).await?;
        match self.owner.approval(&tenant, id).await? {
            Stands::Pending(pending) => Ok(wire::extended(pending.deadline.unwrap_or_default())),
            Stands::Settled(settled) => Err(Refusal::Expired { at: settled.at }),
        }
    }

    fn list_open(&self, by: &Principal, request: ListRequest) -> Result<ListResponse, Refusal> {
        let wish = wire::list(request)?;
        let state = self.owner.state();
        let mut items = Vec::new();
        let (mut last, mut next, mut room) = (None, None, wire::Room::default());
        let wanted = |id: &ItemId| wanted(&state, by, &wish, *id);
        for id in state.open_after(wish.after).filter(wanted) {
            let Some((open, run)) = open_item(&state, id) else {
                continue;
            };
            let item = wire::open_item(&open, run);
            if items.len() == wish.limit || !room.takes(&item) {
                next = last;
                break;
            }
            last = Some(id);
            items.push(item);
        }
        Ok(wire::page(items, next, state.head()))
    }

    async fn history_page(
        &self,
        by: &Principal,
        request: HistoryRequest,
    ) -> Result<HistoryResponse, Refusal> {
        let wire::HistoryWish {
            limit,
            mut before,
            filter,
        } = wire::history(request)?;
        let (mut shown, mut room) = (Vec::new(), wire::Room::default());
        // However rare it is, one call looks at so much; its token says where to go on.
        for _ in 0..HISTORY_LOOKS {
            let query = HistoryQuery {
                filter: filter.clone(),
                ..HistoryQuery::all(by.tenant(), before, HISTORY_PAGE)
            };
            let page = self.owner.read_log(move |log| log.history(&query)).await?;
            for ended in page.ended {
                if sees(by, &ended.scope()) {
                    let item = wire::ended_item(&ended);
                    if !room.takes(&item) {
                        return Ok(wire::history_page(shown, before));
                    }
                    shown.push(item);
                }
                before = Some(ended.seq());
                if shown.len() == limit {
                    return Ok(wire::history_page(shown, before));
                }
            }
            let Some(next) = page.next else {
                return Ok(wire::history_page(shown, None));
            };
            before = Some(next);
        }
        Ok(wire::history_page(shown, before))
    }
}

/// Whether an item is one of those that are asked for, and that `by` may see.
fn wanted(state: &State, by: &Principal, wish: &wire::ListWish, id: ItemId) -> bool {
    let (run, from, labels) = match id {
        ItemId::Approval(id) => match state.approval(id) {
            Some(approval) => (approval.run, &approval.from, Some(&approval.labels)),
            None => return false,
        },
        ItemId::Escalation(id) => match state.escalation(id) {
            Some(escalation) => (escalation.run, &escalation.from, None),
            None => return false,
        },
    };
    let labelled = |(key, value)| labels.is_some_and(|labels| labels.get(key) == Some(value));
    let of_run = |named| names_run(named, run, &from.invocation);
    state
        .scope_of_item(id)
        .is_some_and(|scope| sees(by, &scope))
        && wish.labels.iter().all(labelled)
        && wish.run.as_ref().is_none_or(of_run)
        && wish
            .session
            .as_ref()
            .is_none_or(|session| from.session == *session)
}

fn open_item(state: &State, id: ItemId) -> Option<(wire::Open, &Arc<Run>)> {
    let open = match id {
        ItemId::Approval(id) => wire::Open::Pending(state.pending(id)?.clone()),
        ItemId::Escalation(id) => wire::Open::Escalation(state.escalation(id)?.clone()),
    };
    let run = match &open {
        wire::Open::Pending(pending) => pending.approval.run,
        wire::Open::Escalation(escalation) => escalation.run,
    };
    Some((open, state.run(run)?))
}

fn names_run(named: &Untrusted, id: RunId, invocation: &Untrusted) -> bool {
    named == invocation || named.raw().eq_ignore_ascii_case(&id.to_string())
}

/// A run by our id, or by the agent's own where that names one only, of those that `by` may see.
fn find_run(state: &State, by: &Principal, named: &Untrusted) -> Result<Arc<Run>, Refusal> {
    let there = |run: &&Arc<Run>| {
        run.key.tenant == *by.tenant() && names_run(named, run.id, &run.key.invocation)
    };
    let shown = |run: &&Arc<Run>| may(by, Verb::See, run.owner.as_ref(), None).is_ok();
    let mut found = state.runs().filter(there).filter(shown);
    let Some(run) = found.next() else {
        let run = state.runs().find(there).ok_or(Refusal::NotFound("run"))?;
        may(by, Verb::See, run.owner.as_ref(), None)?;
        return Ok(run.clone());
    };
    if let Some(other) = found.next() {
        return Err(Refusal::Invalid(format!(
            "several runs have that name: use our id, as {} or {}",
            run.id, other.id
        )));
    }
    Ok(run.clone())
}

#[tonic::async_trait]
impl OperatorService for Server {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let local = self.is_local(&request);
        let caller = self.caller(Surface::Operator, &request)?;
        let by = caller.principal.clone();
        // A user sees their own runs, which is nothing that could be refused.
        let anything = may(&by, Verb::See, Some(by.name()), None);
        anything.map_err(|refusal| status(&refusal))?;
        let cursor = wire::watch(request.into_inner()).map_err(|refusal| status(&refusal))?;
        let after = match cursor {
            None => None,
            Some((epoch, _)) if epoch != *self.owner.epoch() => {
                return Err(status(&Refusal::Diverged));
            }
            Some((_, seq)) if seq > self.owner.state().head() => {
                return Err(status(&Refusal::Diverged));
            }
            Some((_, seq)) => {
                let floor = self.owner.read_log(|log| log.floor()).await;
                let floor = floor.map_err(|refusal| status(&refusal))?;
                if seq < floor {
                    return Err(status(&Refusal::Compacted { floor }));
                }
                Some(seq)
            }
        };
        let place = self.stream_place(&by, local)?;
        let stream = self.while_known(caller, self.watching(by, after, place));
        Ok(Response::new(Box::pin(stream)))
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        let by = self.person(&request)?;
        let anything = may(&by, Verb::See, Some(by.name()), None);
        anything.map_err(|refusal| status(&refusal))?;
        let page = self.list_open(&by, request.into_inner());
        page.map(Response::new).map_err(|refusal| status(&refusal))
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        let by = self.person(&request)?;
        let whole = self.get_whole(&by, request.into_inner()).await;
        whole.map(Response::new).map_err(|refusal| status(&refusal))
    }

    async fn get_run(
        &self,
        request: Request<GetRunRequest>,
    ) -> Result<Response<GetRunResponse>, Status> {
        let by = self.person(&request)?;
        let whole = self.get_run_whole(&by, request.into_inner()).await;
        whole.map(Response::new).map_err(|refusal| status(&refusal))
    }

    async fn history(
        &self,
        request: Request<HistoryRequest>,
    ) -> Result<Response<HistoryResponse>, Status> {
        let by = self.person(&request)?;
        let anything = may(&by, Verb::See, Some(by.name()), None);
        anything.map_err(|refusal| status(&refusal))?;
        let page = self.history_page(&by, request.into_inner()).await;
        page.map(Response::new).map_err(|refusal| status(&refusal))
    }

    async fn decide(
        &self,
        request: Request<DecideRequest>,
    ) -> Result<Response<DecideResponse>, Status> {
        let by = self.person(&request)?;
        let decided = self.decide_one(by, request.into_inner()).await;
        decided
            .map(Response::new)
            .map_err(|refusal| status(&refusal))
    }

    async fn control(
        &self,
        request: Request<ControlRequest>,
    ) -> Result<Response<ControlResponse>, Status> {
        let by = self.person(&request)?;
        let controlled = self.control_one(by, request.into_inner()).await?;
        Ok(Response::new(controlled))
    }

    async fn extend(
        &self,
        request: Request<ExtendRequest>,
    ) -> Result<Response<ExtendResponse>, Status> {
        let by = self.person(&request)?;
        let extended = self.extend_one(by, request.into_inner()).await;
        extended
            .map(Response::new)
            .map_err(|refusal| status(&refusal))
    }

    async fn dismiss(
        &self,
        request: Request<DismissRequest>,
    ) -> Result<Response<DismissResponse>, Status> {
        let by = self.person(&request)?;
        let wish = wire::dismiss(request.into_inner()).map_err(|refusal| status(&refusal))?;
        self.submit(by, wish).await?;
        Ok(Response::new(DismissResponse {}))
    }

    async fn mint_ticket(
        &self,
        request: Request<MintTicketRequest>,
    ) -> Result<Response<MintTicketResponse>, Status> {
        let caller = self.caller(Surface::Operator, &request)?;
        let refused = |refusal: Refusal| status(&refusal);
        let (user, ttl, scopes) = wire::mint_ticket(request.into_inner()).map_err(refused)?;
        let wanted = Ticket { user, ttl, scopes };
        let minted = self.identity.mint(&caller, &wanted, self.owner.now());
        let (ticket, until) = minted.map_err(refused)?;
        tracing::info!(
            by = caller.principal.name().as_str(),
            user = wanted.user.as_str(),
            %until,
            "minted a ticket"
        );
        Ok(Response::new(wire::minted(ticket, until)))
    }

    async fn whoami(
        &self,
        request: Request<WhoamiRequest>,
    ) -> Result<Response<WhoamiResponse>, Status> {
        let caller = self.caller(Surface::Operator, &request)?;
        let head = self.owner.state().head();
        let me = wire::whoami(
            &caller.principal,
            (&caller.by, caller.expires),
            env!("CARGO_PKG_VERSION"),
            self.owner.epoch(),
            head,
            self.owner.now(),
        );
        let me = wire::with_clock_ahead(me, self.owner.clock_jump());
        Ok(Response::new(me))
    }
}

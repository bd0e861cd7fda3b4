//! What agents call. Every call acts as the agent whose credential it carries.

use std::{sync::Arc, time::Duration};

use registry::{
    ApprovalId, Principal, Refusal, RunId, Untrusted, Wish,
    approval::WaitTimeout,
    command::GateCall,
    decide::{Gated, Reply},
    policy,
    run::Presence,
    who::{Verb, may},
};
use tokio::time::{Instant, timeout};
use tonic::{Request, Response, Status};

use super::{
    Server,
    controls::Orders,
    identity::Surface,
    owner::{self, Stands},
    stop::Until,
};
use crate::wire::{
    pb::pilothouse::v1::{
        AckControlRequest, AckControlResponse, AwaitRequest, AwaitResponse, ClaimRequest,
        ClaimResponse, ControlsRequest, EndRunRequest, EndRunResponse, FileRequest, FileResponse,
        GateRequest, GateResponse, HeartbeatRequest, HeartbeatResponse, OpenRunRequest,
        OpenRunResponse, ReportAppliedRequest, ReportAppliedResponse, ReportDriftRequest,
        ReportDriftResponse, ReportPlanRequest, ReportPlanResponse, ReportStartedRequest,
        ReportStartedResponse, ReportTaskRequest, ReportTaskResponse, RestoreRequest,
        RestoreResponse, SayRequest, SayResponse, WithdrawRequest, WithdrawResponse,
        agent_service_server::AgentService,
    },
    pilothouse as wire,
    status::status,
};

/// How long one call of `Await` is held at most (DESIGN §4.1.7).
const HELD: Duration = Duration::from_secs(55);
/// How long a waiter waits that does not say (GF-33); `PILOTHOUSE_WAIT_DEFAULT_MS` in our config.
const PATIENCE: Duration = Duration::from_secs(600);
/// The patience of a waiter that does not say.
pub(super) fn default_patience() -> Duration {
    let said = std::env::var("PILOTHOUSE_WAIT_DEFAULT_MS").ok();
    let said = said.and_then(|ms| ms.parse().ok()).filter(|ms| *ms > 0);
    said.map_or(PATIENCE, Duration::from_millis)
}

impl Server {
    pub(super) fn agent<T>(&self, request: &Request<T>) -> Result<Principal, Status> {
        let caller = self.caller(Surface::Agent, request)?;
        Ok(caller.principal)
    }

    pub(super) async fn wish(
        &self,
        by: Principal,
        wish: Result<Wish, Refusal>,
    ) -> Result<Reply, Status> {
        let wish = wish.map_err(|refusal| status(&refusal))?;
        if let Some(run) = self.run_of(&wish) {
            self.hear(run, &by).await;
        }
        self.submit(by, wish).await
    }

    /// The run that a call speaks for: whoever calls is there.
    fn run_of(&self, wish: &Wish) -> Option<RunId> {
        match wish {
            Wish::ReportTask { run, .. }
            | Wish::ReportPlan { run, .. }
            | Wish::Say { run, .. }
            | Wish::EndRun { run, .. } => Some(*run),
            Wish::ReportDrift(drift) => Some(drift.run),
            Wish::Ack(ack) => Some(ack.run),
            Wish::Withdraw { id, .. } | Wish::ReportApplied { id, .. } => {
                Some(self.owner.state().approval(*id)?.run)
            }
            _ => None,
        }
    }

    /// The run was heard of; if it was away, it is there again. Whether it is one that can be away.
    pub(super) async fn hear(&self, run: RunId, by: &Principal) -> bool {
        let away = |run: &registry::Run| matches!(run.presence, Presence::Away { .. });
        let known = {
            let state = self.owner.state();
            let theirs = |run: &&Arc<registry::Run>| {
                run.key.tenant == *by.tenant() && run.opened_by == *by.name()
            };
            let run = state.run(run).filter(theirs);
            run.map(|run| (away(run), run.presence == Presence::Detached))
        };
        let Some((was_away, detached)) = known else {
            return false;
        };
        if !detached {
            self.leases.hear(run, by);
        }
        if was_away {
            let here = Wish::Attend { run, here: true };
            let _ = self.owner.submit(by.clone(), here).await;
        }
        !detached
    }

    /// What was filed, as its agent is told.
    async fn filed(
        &self,
        by: &Principal,
        id: ApprovalId,
        warnings: Vec<String>,
    ) -> Result<FileResponse, Refusal> {
        let stands = self.owner.approval(by.tenant(), id).await?;
        self.hear(stands.approval().run, by).await;
        Ok(wire::filed(stands.approval(), warnings))
    }

    pub(super) fn randomness(&self) -> Result<u128, Status> {
        owner::randomness().map_err(|error| Status::internal(format!("no randomness: {error}")))
    }

    /// Waits for an answer, for as long as one call is held.
    async fn await_one(
        &self,
        by: Principal,
        wish: wire::AwaitWish,
    ) -> Result<AwaitResponse, Refusal> {
        let stands = self.owner.approval(by.tenant(), wish.id).await?;
        let approval = stands.approval().clone();
        may(&by, Verb::Work, None, None)?;
        if approval.filed_by != *by.name() {
            return Err(Refusal::NotYours("another agent filed this one"));
        }
        let pending = match stands {
            Stands::Settled(settled) => {
                let opened = self.owner.opened(by.name(), settled).await?;
                return Ok(wire::settled_await(&opened));
            }
            Stands::Pending(pending) => pending,
        };
        // Told before, and the answer was lost on the way.
        let known = |known: &&WaitTimeout| Some(&known.wait) == wish.wait.as_ref();
        if let Some(known) = pending.timed_out.iter().find(known) {
            return Ok(wire::gave_up(&known.wait, known.at));
        }
        let attached = self.hear(approval.run, &by).await;
        let _held = attached.then(|| self.leases.hold(approval.run, &by));
        let (began, patience) = match &wish.wait {
            Some(wait) => (
                self.waits.began(by.name(), wish.id, wait),
                wish.patience.unwrap_or(self.patience),
            ),
            None => (Instant::now(), wish.patience.unwrap_or_default()),
        };
        let left = |began: Instant| patience.saturating_sub(began.elapsed());
        let hold = left(began).min(HELD);
        let settled = timeout(hold, self.owner.until_settled(wish.id));
        let stopped = self.stop.wait().until(settled).await.is_none();
        if let Stands::Settled(settled) = self.owner.approval(by.tenant(), wish.id).await? {
            if let Some(wait) = &wish.wait {
                self.waits.forget(by.name(), wish.id, wait);
            }
            let opened = self.owner.opened(by.name(), settled).await?;
            return Ok(wire::settled_await(&opened));
        }
        if stopped {
            return Err(Refusal::Unavailable("the server is stopping".into()));
        }
        // A poll that ends records nothing; only a waiter gives up.
        if let Some(wait) = wish.wait.filter(|_| left(began).is_zero()) {
            self.waits.forget(by.name(), wish.id, &wait);
            let (id, at) = (wish.id, self.owner.now());
            let gave_up = Wish::GiveUp {
                id,
                wait: wait.clone(),
            };
            self.owner.submit(by, gave_up).await?;
            return Ok(wire::gave_up(&wait, at));
        }
        Ok(wire::pending_left(left(began)))
    }
}

#[tonic::async_trait]
impl AgentService for Server {
    async fn open_run(
        &self,
        request: Request<OpenRunRequest>,
    ) -> Result<Response<OpenRunResponse>, Status> {
        let by = self.agent(&request)?;
        let id = RunId::mint(self.owner.now(), self.randomness()?);
        let wish = wire::open_run(request.into_inner(), &by, id);
        let wish = wish.map_err(|refusal| status(&refusal))?;
        let dropped = dropped(&wish, &by);
        let Reply::Run(run) = self.submit(by.clone(), wish).await? else {
            return Err(Status::internal("a run was opened and is not there"));
        };
        self.hear(run, &by).await;
        let run = self.owner.state().run(run).cloned();
        let run = run.ok_or_else(|| status(&Refusal::RunOver))?;
        Ok(Response::new(wire::opened(&run, dropped)))
    }

    async fn end_run(
        &self,
        request: Request<EndRunRequest>,
    ) -> Result<Response<EndRunResponse>, Status> {
        let by = self.agent(&request)?;
        self.wish(by, wire::end_run(request.into_inner())).await?;
        Ok(Response::new(EndRunResponse {}))
    }

    async fn report_task(
        &self,
        request: Request<ReportTaskRequest>,
    ) -> Result<Response<ReportTaskResponse>, Status> {
        let by = self.agent(&request)?;
        self.wish(by, wire::report_task(request.into_inner()))
            .await?;
        Ok(Response::new(ReportTaskResponse {}))
    }

    async fn report_plan(
        &self,
        request: Request<ReportPlanRequest>,
    ) -> Result<Response<ReportPlanResponse>, Status> {
        let by = self.agent(&request)?;
        self.wish(by, wire::report_plan(request.into_inner()))
            .await?;
        Ok(Response::new(ReportPlanResponse {}))
    }

    async fn say(&self, request: Request<SayRequest>) -> Result<Response<SayResponse>, Status> {
        let by = self.agent(&request)?;
        self.wish(by, wire::say(request.into_inner())).await?;
        Ok(Response::new(SayResponse {}))
    }

    async fn file(&self, request: Request<FileRequest>) -> Result<Response<FileResponse>, Status> {
        let by = self.agent(&request)?;
        let id = ApprovalId::mint(self.owner.now(), self.randomness()?);
        let mut wish = wire::file(request.into_inner(), id).map_err(|refusal| status(&refusal))?;
        if let Wish::File(file) = &mut wish {
            self.gate.raise(&mut file.filing);
        }
        let warnings = warnings(&wish);
        let reply = self.submit(by.clone(), wish).await?;
        let Reply::Approval(id) = reply else {
            return Err(Status::internal("an approval was filed and is not there"));
        };
        let filed = self.filed(&by, id, warnings).await;
        filed.map(Response::new).map_err(|refusal| status(&refusal))
    }

    async fn gate(&self, request: Request<GateRequest>) -> Result<Response<GateResponse>, Status> {
        let by = self.agent(&request)?;
        let id = ApprovalId::mint(self.owner.now(), self.randomness()?);
        let file = wire::gate(request.into_inner(), id).map_err(|refusal| status(&refusal))?;
        let filing = &file.filing;
        let args = filing.detail.args.as_ref().map_or("{}", Untrusted::raw);
        let tool = filing.subject.tool().map_or("", Untrusted::raw);
        let ruling = self.gate.ruling(tool, args);
        self.hear(file.run, &by).await;
        let wish = Wish::Gate(Box::new(GateCall { file, ruling }));
        let says = match self.submit(by.clone(), wish).await? {
            Reply::Gated(Gated::Free) => wire::free(),
            Reply::Gated(Gated::Blocked(id, missing)) => wire::blocked(id, &missing),
            Reply::Gated(Gated::Asked(id)) => {
                let filed = self.filed(&by, id, Vec::new()).await;
                wire::gate_asked(filed.map_err(|refusal| status(&refusal))?)
            }
            _ => {
                return Err(Status::internal(
                    "a call was gated, and the gate says nothing",
                ));
            }
        };
        Ok(Response::new(says))
    }

    async fn r#await(
        &self,
        request: Request<AwaitRequest>,
    ) -> Result<Response<AwaitResponse>, Status> {
        let by = self.agent(&request)?;
        let wish = wire::await_(request.into_inner()).map_err(|refusal| status(&refusal))?;
        let answer = self.await_one(by, wish).await;
        answer
            .map(Response::new)
            .map_err(|refusal| status(&refusal))
    }

    async fn withdraw(
        &self,
        request: Request<WithdrawRequest>,
    ) -> Result<Response<WithdrawResponse>, Status> {
        let by = self.agent(&request)?;
        self.wish(by, wire::withdraw(request.into_inner())).await?;
        Ok(Response::new(WithdrawResponse {}))
    }

    async fn report_applied(
        &self,
        request: Request<ReportAppliedRequest>,
    ) -> Result<Response<ReportAppliedResponse>, Status> {
        let by = self.agent(&request)?;
        self.wish(by, wire::report_applied(request.into_inner()))
            .await?;
        Ok(Response::new(ReportAppliedResponse {}))
    }

    async fn heartbeat(
        &self,
        request: Request<HeartbeatRequest>,
    ) -> Result<Response<HeartbeatResponse>, Status> {
        let by = self.agent(&request)?;
        may(&by, Verb::Work, None, None).map_err(|refusal| status(&refusal))?;
        let runs = wire::heartbeat(request.into_inner()).map_err(|refusal| status(&refusal))?;
        for run in runs {
            self.hear(run, &by).await;
        }
        Ok(Response::new(wire::heartbeat_answer(self.owner.now())))
    }

    async fn claim(
        &self,
        request: Request<ClaimRequest>,
    ) -> Result<Response<ClaimResponse>, Status> {
        let by = self.agent(&request)?;
        let (tenant, name) = (by.tenant().clone(), by.name().clone());
        let Reply::Claimed(ids) = self.wish(by, wire::claim(request.into_inner())).await? else {
            return Err(Status::internal("decisions were taken and are not there"));
        };
        let mut decisions = Vec::new();
        for id in ids {
            match self.owner.approval(&tenant, id).await {
                Ok(Stands::Settled(settled)) => {
                    let opened = self.owner.opened(&name, settled).await;
                    decisions.push(opened.map_err(|refusal| status(&refusal))?);
                }
                Ok(Stands::Pending(_)) => return Err(status(&Refusal::StillPending)),
                Err(refusal) => return Err(status(&refusal)),
            }
        }
        Ok(Response::new(wire::claimed(&decisions)))
    }

    async fn restore(
        &self,
        request: Request<RestoreRequest>,
    ) -> Result<Response<RestoreResponse>, Status> {
        let by = self.agent(&request)?;
        let wish = wire::restore(request.into_inner()).map_err(|refusal| status(&refusal))?;
        match self.judge(by, wish).await {
            Ok(_) => Ok(Response::new(wire::restored(None))),
            // Nothing that its caller could do otherwise: how things stand is the answer (DESIGN §4.1.9).
            Err(why @ Refusal::NotNow(_)) => Ok(Response::new(wire::restored(Some(&why)))),
            Err(refusal) => Err(status(&refusal)),
        }
    }

    async fn report_started(
        &self,
        request: Request<ReportStartedRequest>,
    ) -> Result<Response<ReportStartedResponse>, Status> {
        let by = self.agent(&request)?;
        self.wish(by, wire::report_started(request.into_inner()))
            .await?;
        Ok(Response::new(ReportStartedResponse {}))
    }

    async fn report_drift(
        &self,
        request: Request<ReportDriftRequest>,
    ) -> Result<Response<ReportDriftResponse>, Status> {
        let by = self.agent(&request)?;
        let drifted = self.drifted(by, request.into_inner()).await?;
        Ok(Response::new(drifted))
    }

    type ControlsStream = Orders;

    async fn controls(
        &self,
        request: Request<ControlsRequest>,
    ) -> Result<Response<Self::ControlsStream>, Status> {
        let by = self.agent(&request)?;
        let orders = self.orders(by, request.into_inner()).await;
        orders
            .map(Response::new)
            .map_err(|refusal| status(&refusal))
    }

    async fn ack_control(
        &self,
        request: Request<AckControlRequest>,
    ) -> Result<Response<AckControlResponse>, Status> {
        let by = self.agent(&request)?;
        let raise = self.escalation_id()?;
        self.wish(by, wire::ack_control(request.into_inner(), raise))
            .await?;
        Ok(Response::new(AckControlResponse {}))
    }
}

/// What of a run's opening is not believed of `by`.
fn dropped(wish: &Wish, by: &Principal) -> Vec<String> {
    let Wish::OpenRun(open) = wish else {
        return Vec::new();
    };
    let admitted = policy::admit(&open.context, &open.origin, by.is_internal());
    admitted
        .map(|admitted| admitted.dropped)
        .unwrap_or_default()
}

/// Forms that cannot be declined with one key (case A31): the one who files can mend that.
fn warnings(wish: &Wish) -> Vec<String> {
    let Wish::File(file) = wish else {
        return Vec::new();
    };
    let fields = file.filing.detail.form.cannot_be_declined_in_one_step();
    let warn = |label| {
        format!("'{label}' is required and has no default: it must be filled in even to reject")
    };
    fields
        .iter()
        .map(|field| warn(field.label.line()))
        .collect()
}

"""A service with the model APIs over given backends, in this process."""

from collections.abc import Mapping, Sequence

from accord.agents.demo import demo
from accord.config import ServerConfig
from accord.core.work.groups import BackendGroup, UnresolvedModel, model_names, resolve_model
from accord.core.work.plan import PlanConfig
from accord.ports import Backend, BackendPrice, DescribedBackend
from accord.run import Dispatcher, Engine, Sessions
from accord.run.call_log import CallLog
from accord.run.model_calls import ModelCalls, ModelCallsRef
from accord.servers.http.app import Application
from accord.servers.http.information import information_routes
from accord.servers.http.model_calls import model_endpoints
from accord.servers.observability.metrics import Metrics
from accord.servers.service import AllowAll, Authenticator, NullObserver, Service
from accord.stores.memory import MemoryStore
from accord.wire.emulation import EmulationConfig


def model_application(
    backends: Sequence[Backend],
    groups: Mapping[str, BackendGroup] | None = None,
    *,
    emulation: EmulationConfig | None = None,
    authenticator: Authenticator | None = None,
    prices: Mapping[str, BackendPrice] | None = None,
) -> Application:
    """The application of a service with these backends."""
    config = PlanConfig(emulation=emulation or EmulationConfig())
    dispatcher = Dispatcher(backends, config=config, prices=prices)
    engine, store = Engine(demo, dispatcher), MemoryStore()
    sessions = Sessions(engine, store)
    service = Service(
        sessions,
        ServerConfig(port=0),
        authenticator or AllowAll(),
        NullObserver(),
        "1.0",
        call_log=CallLog(sessions),
    )
    models = {each.name: each.model if isinstance(each, DescribedBackend) else None for each in backends}

    def resolve(name: str) -> BackendGroup | UnresolvedModel:
        return resolve_model(name, models, groups or {})

    calls = ModelCalls(dispatcher, resolve, engine.clock, names=lambda: model_names(models, groups or {}))
    held = ModelCallsRef(calls)
    return Application(
        service, {**information_routes(service, Metrics(version="1.0"), held), **model_endpoints(service, held)}
    )

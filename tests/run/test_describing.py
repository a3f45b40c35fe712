"""Images that a backend cannot take are described by one that can, if configured."""

from accord.agent import Agent
from accord.backends.scripted import ScriptedBackend, ScriptedFault
from accord.core.work.emulation.choose import EmulationSettings, preset_config
from accord.core.work.plan import PlanConfig
from accord.run import Dispatcher, Engine, Run
from accord.wire.plan import WorkPolicy
from tests.run.playing import IMAGE, SEES, STREAMS, asking, played, relay, said


def describing(seer: ScriptedBackend) -> tuple[Run, ScriptedBackend]:
    blind = ScriptedBackend("blind", [["A cat, you say."]], STREAMS)
    settings = EmulationSettings(describe_images_with="seer")
    dispatcher = Dispatcher(
        [blind, seer], config=PlanConfig(emulation=preset_config(["image_input"])), settings=settings
    )
    asked = asking(content=[IMAGE])
    return Engine(Agent(relay, accepts={"image": True}), dispatcher).begin(asked), blind


def test_an_image_is_described_to_a_blind_backend_by_one_that_sees_if_the_operator_says_so():
    # It is declared to see but not to stream, so the conversation itself goes to the blind one.
    seer = ScriptedBackend("seer", [["A black cat."]], {"image_input": "native"})
    running, blind = describing(seer)
    assert said(played(running)) == "A cat, you say."
    told = blind.orders[0].conversation.to_json()
    assert "A black cat." in told
    assert IMAGE["data"] not in told
    record = running.work[0].emulation
    assert record is not None
    assert {(effect.kind, effect.by) for effect in record.effects} >= {("image_shown", "seer")}


def test_a_describer_that_fails_costs_the_description_and_not_the_turn():
    running, blind = describing(ScriptedBackend("seer", [[ScriptedFault("overloaded")]], {"image_input": "native"}))
    assert said(played(running)) == "A cat, you say."
    record = running.work[0].emulation
    assert record is not None
    assert {(effect.kind, effect.why) for effect in record.effects} >= {("description_failed", "overloaded")}
    assert IMAGE["data"] not in blind.orders[0].conversation.to_json()


def test_images_are_shown_once_however_many_backends_fail_before_one_answers():
    seer = ScriptedBackend("seer", [["A black cat."]], {"image_input": "native"})
    first, second = (
        ScriptedBackend("first", [[ScriptedFault("gone")]], STREAMS),
        ScriptedBackend("second", [["Ok."]], STREAMS),
    )
    settings = EmulationSettings(describe_images_with="seer")
    config = PlanConfig(emulation=preset_config(["image_input"]))
    dispatcher = Dispatcher([first, second, seer], config=config, settings=settings)
    running = Engine(Agent(relay, accepts={"image": True}), dispatcher).begin(asking(content=[IMAGE]))
    assert said(played(running)) == "Ok."
    assert len(seer.orders) == 1
    assert "A black cat." in second.orders[0].conversation.to_json()


def test_the_address_of_an_image_reaches_backends_that_see_it_and_backends_that_do_not():
    image = {**IMAGE, "uri": "file:///pictures/cat.png"}
    blind = ScriptedBackend("blind", [["Ok."]], STREAMS)
    rescued, lost = PlanConfig(emulation=preset_config(["image_input"])), PlanConfig(policy=WorkPolicy.PERMISSIVE)
    for config in (rescued, lost):
        dispatcher = Dispatcher([blind], config=config)
        played(Engine(Agent(relay, accepts={"image": True}), dispatcher).begin(asking(content=[image])))
        message = blind.orders[-1].conversation.messages[-1]
        assert [part.type for part in message.content] == ["text", "text"]
        assert message.content[-1].dump()["text"].endswith("; its address: file:///pictures/cat.png]")
    seeing = ScriptedBackend("seeing", [["Ok."]], SEES)
    played(Engine(Agent(relay, accepts={"image": True}), Dispatcher([seeing])).begin(asking(content=[image])))
    assert seeing.orders[0].conversation.messages[-1].content[-1].dump()["uri"] == "file:///pictures/cat.png"

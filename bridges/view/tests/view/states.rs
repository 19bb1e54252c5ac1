//! States as parameters, services, and what is allowed.

use outlive::rpc::Service;
use outlive::state::State;
use outlive_testnet::eventually;
use serde_json::{Value, json};

use crate::client::Client;
use crate::support::{LONG, Shown};

/// Returns the parameters that a request is answered with.
pub fn values(client: &mut Client, request: &Value) -> Value {
    client.send(request);
    let id = request["id"].clone();
    loop {
        let answer = client.operation("parameterValues");
        if answer["id"] == id {
            return answer["parameters"].clone();
        }
    }
}

#[test]
fn states_are_parameters_and_set_where_that_is_allowed() {
    let shown = Shown::start("states", &["--allow-set"]);
    let speed = State::<f64>::options().described().initial(&1.5);
    let speed = speed.open_or_create(&shown.domain, "speed").expect("made");
    let gains = State::<[i32; 2]>::options().described().initial(&[1, -2]);
    let gains = gains.open_or_create(&shown.domain, "gains").expect("made");
    let (mut client, info) = Client::connect(shown.port);
    assert!(info["capabilities"].as_array().expect("a list").contains(&json!("parameters")));
    let all = || json!({"op": "getParameters", "parameterNames": [], "id": "all"});
    assert!(eventually(LONG, || {
        values(&mut client, &all())
            == json!([{"name": "gains", "value": [1, -2]},
                      {"name": "speed", "type": "float64", "value": 1.5}])
    }));
    client.send(&json!({"op": "subscribeParameterUpdates", "parameterNames": ["speed", "nope"]}));
    let told = |client: &mut Client, value: f64| loop {
        let answer = client.operation("parameterValues");
        if answer["parameters"][0]["value"].as_f64() == Some(value) {
            return;
        }
    };
    told(&mut client, 1.5);
    speed.writer().expect("alone").set(&2.0).expect("set");
    told(&mut client, 2.0);
    let set = json!({"op": "setParameters", "id": "set", "parameters": [
        {"name": "speed", "type": "float64", "value": 3},
        {"name": "gains", "value": [5, 6]},
    ]});
    let now = values(&mut client, &set);
    assert_eq!(now[1]["value"].as_f64(), Some(3.0), "{now}");
    assert_eq!((speed.get().expect("a value"), gains.get().expect("a value")), (3.0, [5, 6]));
    told(&mut client, 3.0);
    // What does not fit is refused, and says why.
    for (name, value, why) in [
        ("gains", json!([1]), "an array of 2"),
        ("gains", json!("x"), "an array of 2"),
        ("nope", json!(1), "no state"),
    ] {
        client
            .send(&json!({"op": "setParameters", "parameters": [{"name": name, "value": value}]}));
        let status = client.operation("status");
        assert!(status["message"].as_str().expect("a text").contains(why), "{status}");
    }
    let writer = speed.writer().expect("alone");
    client.send(&json!({"op": "setParameters", "parameters": [{"name": "speed", "value": 9.5}]}));
    let status = client.operation("status");
    assert!(status["message"].as_str().expect("a text").contains("has a writer"), "{status}");
    drop(writer);
    assert_eq!(speed.get().expect("a value"), 3.0);
}

#[test]
fn nothing_is_set_and_called_unless_it_is_allowed() {
    let shown = Shown::start("forbidden", &[]);
    let speed = State::<f64>::options().described().initial(&1.5);
    let speed = speed.open_or_create(&shown.domain, "speed").expect("made");
    let _service = Service::<u32, u32>::open_or_create(&shown.domain, "add").expect("made");
    let (mut client, info) = Client::connect(shown.port);
    assert!(!info["capabilities"].as_array().expect("a list").contains(&json!("services")));
    client.send(&json!({"op": "setParameters", "parameters": [{"name": "speed", "value": 9.5}]}));
    let status = client.operation("status");
    assert!(status["message"].as_str().expect("a text").contains("--allow-set"), "{status}");
    assert_eq!(speed.get().expect("a value"), 1.5);
    assert!(client.services.is_empty());
}

#[test]
fn services_are_called_as_json() {
    let shown = Shown::start("services", &["--allow-call", "--call-timeout", "60"]);
    let mut robot = shown.robot(None);
    let _nobody = Service::<[u8], [u8]>::open_or_create(&shown.domain, "nobody").expect("made");
    let mut client = shown.client();
    assert_eq!(client.call("robot.add_one", &json!({"value": 41})), Ok(json!({"value": 42})));
    let schema = client.services["robot.add_one"]["request"]["schema"].as_str().expect("a schema");
    assert!(schema.contains("\"integer\""), "{schema}");
    let why = client.call("robot.add_one", &json!({"value": "x"})).expect_err("no number");
    assert!(why.contains("u32"), "{why}");
    client.call("nobody", &json!({"text": "hello"})).expect_err("no server");
    // A server that is killed is no end of the program's.
    robot.kill();
    client.call("robot.add_one", &json!({"value": 1})).expect_err("no server");
}

/// Its server is there and takes no call: a short time fails nothing that would come later.
#[test]
fn a_call_that_is_not_answered_in_time_fails() {
    let shown = Shown::start("silent", &["--allow-call", "--call-timeout", "1"]);
    let silent = Service::<[u8], [u8]>::open_or_create(&shown.domain, "silent").expect("made");
    let _server = silent.server().expect("serves");
    let mut client = shown.client();
    let why = client.call("silent", &json!({"text": "hello"})).expect_err("no answer");
    assert!(why.contains("within 1 second"), "{why}");
}

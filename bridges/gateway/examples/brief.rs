//! `brief DOMAIN TOPIC COUNT`: publishes 0..COUNT, leaves in order, and exits.
use outlive::Domain;
use outlive::topic::Topic;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let domain = Domain::open_or_create_at(&args[0])?;
    let topic = Topic::<u64>::options().depth(64).reliable(true).described();
    let topic = topic.as_is().open_or_create(&domain, &args[1])?;
    let publisher = topic.publisher()?;
    for number in 0..args[2].parse::<u64>()? {
        publisher.publish(&number)?;
    }
    drop(publisher);
    Ok(())
}

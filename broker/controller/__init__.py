"""The controller: the cluster's metadata and the decisions about it. Pure; every node hosts one beside its quorum.

    controller = Controller(config=ControllerConfig(node_id=1), rng=random.Random(seed))
    actions = controller.handle(event, now_ms)

Events: LeadershipGained, LeadershipLost, MetadataCommitted (from the quorum's actions BecameLeader, LostLeadership,
Committed), Tick when next_deadline_ms() has come, and the requests RegisterBroker, BrokerHeartbeat, CreateTopics,
DeleteTopics, AlterPartition, AllocateProducerIds, AlterConfigs, each with a token. A node that is not active answers
NOT_CONTROLLER (41); the node process forwards client requests to quorum.leader_id itself.

Actions, performed in order:
    WriteMetadata(epoch, values)      quorum.handle(Propose(epoch=epoch, values=values), now_ms)
    Respond(token, response)          comes after the commit of what the request wrote
    ImagePublished(old, new)          on every node for every commit; diff(old, new, broker_id=me) says what to lead,
                                      follow and remove; answers Metadata, DescribeCluster, DescribeConfigs from `new`
    ControllerActivated / ControllerDeactivated(epoch)   journal

Broker life: send BrokerRegistration (new incarnation id per process start) until error 0, keep broker_epoch; then
BrokerHeartbeat every broker.heartbeat.interval.ms with current_metadata_offset = image.offset; it is unfenced once that
is >= broker_epoch. STALE_BROKER_EPOCH (77): register again. BROKER_ID_NOT_REGISTERED (102): it was unregistered, and
stays so until the next start. To stop cleanly send want_shut_down=True until should_shut_down.
Names are imported from broker.controller.core, .types and the other *_types, .records, .image, .delta.
"""

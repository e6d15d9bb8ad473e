"""Carrying out a plan: run directory, cells one after the other, evidence, and the report at the end.

Its modules by subject (tests/repository/test_repository_rules.py holds that all are here):

- a run and its cells: `orchestrator`, `cell`, `context`, `request`, `current_cluster`, `topics`, `share_groups`,
  `members`, `timeline_driver`, `attempts`, `search_trace`, `rate_contract`, `stop`, `cleanup_steps`
- what is written of it: `rundir`, `document`, `outcome`, `send_outcomes`, `scrub`, `recover`, `last_room`
- the load generator: `load_plan`, `load_run`, `workload_process`, `standby_processes`, `own_users`, `client_runtime`,
  `warm_up`, `certify`, `certificates`, `null_broker`, `host_load`, `host_stalls`, `jvm_threads`
- evidence while a cell runs: `cell_recording`, `recorders`, `wire_log_tail`
- evidence after it: `ground_truth`, `log_visibility`, `final_read`, `read_bound`, `copies`, `truncation`,
  `deposed_leader`, `unsynced_writes`, `replica_check`
- other hosts: `load_hosts`, `host_ceilings`, `host_evidence`, `gather_late`, `fault_hosts`, `fault_host_needs`,
  `broker_settings`, `store_copy`, `store_rebuild`, `operator_log`
- what is told: `progress`, `terminal_tables`, `time_left`, `reproduce`, `reporting`, `analysis_process`, `artifacts`
"""

"""Pure cores of security: authentication and authorisation. No socket, no clock, no file.

`acls` holds the vocabulary (resources, operations, bindings, filters), `authorizer` decides. `sasl` is the interface
of a server's SASL mechanisms, such as `plain`, `scram` and `oauthbearer`: tokens come in and tokens go out. The caller
passes the time, nonces and credentials. `distinguished_names` and `mapping_rules` turn the subject of a certificate
into the name of a user.
"""

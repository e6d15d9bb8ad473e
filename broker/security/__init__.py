"""Pure cores of security: who somebody is, and who may do what. No socket, no clock, no file.

`acls` holds the vocabulary (resources, operations, bindings, filters), `authorizer` decides.
`sasl` is what every SASL mechanism of a server is; `plain` and `scram` are two of them. Tokens come in and go out. The
caller passes the time, nonces and credentials. `distinguished_names` and
`mapping_rules` say who the owner of a certificate is.
"""

"""Logins and access rules: credentials, JAAS texts, the files of Java's properties, ACLs."""

from __future__ import annotations

from broker.java_properties import PropertiesError, parse_java_properties
from broker.security.acls import CLUSTER_NAME, WILDCARD, AclBinding, Operation, PatternType, Permission, ResourceType
from broker.security.jaas import MODULES, parse_jaas
from broker.security.sasl_client import Credentials, SaslError, sasl_client

__all__ = [
    "CLUSTER_NAME",
    "MODULES",
    "WILDCARD",
    "AclBinding",
    "Credentials",
    "Operation",
    "PatternType",
    "Permission",
    "PropertiesError",
    "ResourceType",
    "SaslError",
    "parse_jaas",
    "parse_java_properties",
    "sasl_client",
]

"""The authorizer of this broker: made from its settings, with the access control lists of the metadata image."""

from __future__ import annotations

from broker.controller.image import MetadataImage
from broker.node.settings.config import NodeConfig
from broker.security.authorizer import Authorizer


def authorizer_of(config: NodeConfig) -> Authorizer | None:
    """None: `authorizer.class.name` is not set, everybody may do everything."""
    if not config.authorizer_class_name:
        return None
    return Authorizer(
        super_users=[item.strip() for item in config.super_users.split(";") if item.strip()],
        allows_without_acl=config.allow_everyone_if_no_acl_found,
    )


def follow(authorizer: Authorizer, old: MetadataImage, new: MetadataImage, *, is_current: bool) -> None:
    """`is_current`: this image holds what the cluster had decided when this life of the broker began. An older one may
    lack a DENY, so nothing is decided by it."""
    if old.acls is not new.acls:
        for acl_id in old.acls.keys() - new.acls.keys():
            authorizer.remove(old.acls[acl_id])
        for acl_id in new.acls.keys() - old.acls.keys():
            authorizer.add(new.acls[acl_id])
    authorizer.is_loaded = authorizer.is_loaded or is_current

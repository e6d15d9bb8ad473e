"""The authorizer of this broker. It is made from the settings and has the access control lists of the metadata
image."""

from __future__ import annotations

from broker.controller.image import MetadataImage
from broker.node.settings.sections.security import SecuritySettings
from broker.security.authorizer import Authorizer


def authorizer_of(settings: SecuritySettings) -> Authorizer | None:
    """None if `authorizer.class.name` is not set: then everybody may do everything."""
    if not settings.authorizer_class_name:
        return None
    return Authorizer(
        super_users=[item.strip() for item in settings.super_users.split(";") if item.strip()],
        allows_without_acl=settings.allow_everyone_if_no_acl_found,
    )


def follow(authorizer: Authorizer, old: MetadataImage, new: MetadataImage, *, is_current: bool) -> None:
    """`is_current` says that this image contains every decision from before this process started. An older image may
    lack a DENY, so no request is authorized by it."""
    if old.acls is not new.acls:
        for acl_id in old.acls.keys() - new.acls.keys():
            authorizer.remove(old.acls[acl_id])
        for acl_id in new.acls.keys() - old.acls.keys():
            authorizer.add(new.acls[acl_id])
    authorizer.is_loaded = authorizer.is_loaded or is_current

"""Methods that change decisions about members of groups."""

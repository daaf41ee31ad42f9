"""What can be audited: each subject opens from an address and offers views, which measures ask for."""

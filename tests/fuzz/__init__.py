"""Every reader of what somebody else wrote, on damaged copies of well-formed inputs."""

"""What the phases about times to come share: what is free then, who gives way for it, what was promised."""

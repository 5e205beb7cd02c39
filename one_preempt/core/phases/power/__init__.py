"""What the phases about host power share: its draft, the policy's question, who needs which hosts, turns to boot."""

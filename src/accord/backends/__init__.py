"""Who answers, and what is known about them."""

"""How it is reached: transports that turn bytes into requests and packets into bytes. They pump, they do not decide.

No transport knows another one, a concrete backend or a concrete store; what they share stands in `service.py`.
"""
